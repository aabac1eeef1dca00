"""A few tokens appended to the states of a stream, or asked of them, by the kernels in C++: all heads in one call.

`csrc/stream.hpp` says in which order they add up. The tokens of a call are added up before they are added to the state:
a new token goes through as many roundings as there are tokens in the call, and then, with all that were there, through
one more. All other steps are counted as in `arithmetic/rounding.py`, where the monomials are added up in any order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.attention.near_linear.bounded_plan import BoundedPlan, balanced_exponents
from separatrix.attention.near_linear.native import laid
from separatrix.native import MOST_SETS, REFUSED, StreamCall, done
from separatrix.native_tensors import TYPES

FEW = 8
"""The largest number of tokens in a call: with more, products of whole tiles of tokens cost less."""


def roundings_of_few(before: int, tokens: int) -> int:
    """How many roundings a token has gone through after a call of so many tokens; `before` is the number before it.

    >>> roundings_of_few(0, 1), roundings_of_few(1, 1), roundings_of_few(1, 4)
    (2, 2, 5)
    """
    return max(before, tokens) + 1


class FewTokens:
    """The calls of the kernels for the states of one plan.

    An instance is never changed, so that threads may share it: every call fills a `StreamCall` of its own, because
    ctypes releases the global interpreter lock while a kernel reads it.

    Args:
        library: The kernels.
        plan: The plan of the states.
        heads: How many heads they have.
        value_dim: The dimension of values.
        bound: What bounds tokens, as in `TensorAttentionState`.
        scale: The factor of every score.
        most: What the entries of a token, or its norm, may be.
        norm: "entries" or "order".
    """

    ONE_BY_ONE = True
    """Whether causal attention of a few tokens is quicker token by token."""

    def __init__(
        self,
        library: ctypes.CDLL,
        plan: BoundedPlan,
        heads: int,
        value_dim: int,
        bound: float,
        scale: float,
        most: float,
        norm: str,
    ) -> None:
        self._library = library
        self._plan, self._laid, self._coefficients = plan, laid(plan.index_set), plan.coefficients()
        powers = [2.0**exponent for exponent in balanced_exponents(plan.order, bound, scale)]
        self._sets, self._value_dim = plan.order - 1, value_dim
        self._template = StreamCall(heads=heads, sets=self._sets, d_v=value_dim, most=most)
        self._template.norm = plan.order if norm == "order" else 0
        self._template.set = ctypes.pointer(self._laid.monomials)
        self._template.coefficients = self._coefficients.data_ptr()
        self._template.factors[: self._sets + 1] = [powers[0] * scale, *powers[1:]]

    def _call(self, states: Sequence[Tensor], like: Tensor, checked: bool) -> StreamCall:
        """The structure of one call on tokens of the type and length of `like`; what it points to is held by `self`."""
        call = StreamCall.from_buffer_copy(self._template)
        call.type, call.tokens, call.checked = TYPES[like.dtype], like.shape[-2], checked
        for m, state in enumerate(states):
            call.states[m] = state.data_ptr()
        return call

    def append(
        self, states: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], checked: bool
    ) -> list[float] | None:
        """Add tokens to contiguous states, in place, and give the largest magnitude of the values of each set.

        None if a token is not certain to be within the bound, unless it was `checked`, or a value is not finite:
        nothing is added then.
        """
        keys, values = [_readable(key) for key in keys], [_readable(value) for value in values]
        call, largest = self._call(states, keys[0], checked), (ctypes.c_double * MOST_SETS)()
        for m in range(self._sets):
            call.keys[m], call.values[m] = keys[m].data_ptr(), values[m].data_ptr()
        code = self._library.separatrix_stream_append(ctypes.byref(call), largest)
        if code == REFUSED:
            return None
        done(code)
        return largest[: self._sets]

    def attend(self, states: Sequence[Tensor], query: Tensor, checked: bool) -> tuple[Tensor, float] | None:
        """The outputs of queries against contiguous states, and the largest magnitude of one before it was rounded.

        None if a query is not certain to be within the bound, unless it was `checked`.
        """
        given = _readable(query)
        call, reached = self._call(states, given, checked), ctypes.c_double()
        call.query = given.data_ptr()
        out = torch.empty(*query.shape[:-1], self._value_dim, dtype=given.dtype)
        code = self._library.separatrix_stream_attend(
            ctypes.byref(call), ctypes.c_void_p(out.data_ptr()), ctypes.byref(reached)
        )
        if code == REFUSED:
            return None
        done(code)
        return out.to(query.dtype), reached.value


def _readable(x: Tensor) -> Tensor:
    """A tensor as the kernels read it: contiguous, half types in float32, which holds them exactly."""
    return (x if x.dtype in TYPES else x.to(torch.float32)).contiguous()
