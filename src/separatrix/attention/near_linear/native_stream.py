"""Appends a few tokens to the states of a stream, or attends to the states, by the C++ kernels: all heads in one call.

`csrc/stream.hpp` describes the order of summation. The tokens of a call are summed before they are added to the state:
a new token goes through as many roundings as there are tokens in the call, and then, with all earlier tokens, through
one more. All other steps are counted as in `arithmetic/rounding.py`, where monomials may be summed in any order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.native import MOST_SETS, REFUSED, StreamCall
from separatrix.native_tensors import TYPES, done, function

if TYPE_CHECKING:
    from separatrix.attention.near_linear.native import NativeMonomials


class NativeStream:
    """The calls of the kernels for the states of one plan.

    An instance is never modified, so that threads may share it: every call fills its own `StreamCall`, because ctypes
    releases the global interpreter lock while a kernel reads it.

    The arguments are those of `stream_kernels` in `backend`, with a table of the monomials.
    """

    ONE_BY_ONE = True

    def __init__(
        self,
        table: NativeMonomials,
        coefficients: Tensor,
        factors: Sequence[float],
        heads: int,
        value_dim: int,
        most: float,
        norm: int,
    ) -> None:
        self._table, self._coefficients = table, coefficients
        self._sets, self._value_dim = len(factors) - 1, value_dim
        self._template = StreamCall(heads=heads, sets=self._sets, d_v=value_dim, most=most, norm=norm)
        self._template.set = ctypes.pointer(table.monomials)
        self._template.coefficients = coefficients.data_ptr()
        self._template.factors[: self._sets + 1] = factors

    def _call(self, states: Sequence[Tensor], like: Tensor, checked: bool) -> StreamCall:
        """The structure of one call on tokens of the dtype and length of `like`; `self` owns its memory."""
        call = StreamCall.from_buffer_copy(self._template)
        call.type, call.tokens, call.checked = TYPES[like.dtype], like.shape[-2], checked
        for m, state in enumerate(states):
            call.states[m] = state.data_ptr()
        return call

    def append(
        self, states: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], checked: bool
    ) -> list[float] | None:
        keys, values = [_readable(key) for key in keys], [_readable(value) for value in values]
        call, largest = self._call(states, keys[0], checked), (ctypes.c_double * MOST_SETS)()
        for m in range(self._sets):
            call.keys[m], call.values[m] = keys[m].data_ptr(), values[m].data_ptr()
        code = function("separatrix_stream_append", 2)(ctypes.byref(call), largest)
        if code == REFUSED:
            return None
        done(code)
        return largest[: self._sets]

    def attend(self, states: Sequence[Tensor], query: Tensor, checked: bool) -> tuple[Tensor, float] | None:
        given = _readable(query)
        call, reached = self._call(states, given, checked), ctypes.c_double()
        call.query = given.data_ptr()
        out = torch.empty(*query.shape[:-1], self._value_dim, dtype=given.dtype)
        code = function("separatrix_stream_attend", 3)(ctypes.byref(call), out.data_ptr(), ctypes.byref(reached))
        if code == REFUSED:
            return None
        done(code)
        return out.to(query.dtype), reached.value


def _readable(x: Tensor) -> Tensor:
    """A tensor in the form that the kernels read: contiguous, with half types converted to float32, which is exact."""
    return (x if x.dtype in TYPES else x.to(torch.float32)).contiguous()
