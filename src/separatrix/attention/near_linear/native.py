r"""Near-linear attention by the kernels in C++, on the CPU.

- **Products** of a chunk's monomials. The kernels compute the monomials of a tile of tokens in cache and write none of
  them to memory; csrc/near_linear.hpp describes the order of summation. Counted as in `arithmetic/rounding.py`, the
  number of roundings of a token in the dtype of the monomials is at most the number of tokens of a tile in one lane,
  which is at most 128. In float64 it then goes through four roundings for the lanes, one for each tile of its task, one
  for each task of its head, and one for each call of `add`. For n tokens, a task has at most n / 128 + 2 tiles and at
  most 514, because it has at most 2^16 tokens; and a head has at most 16 or n / 2^16 + 1 tasks. Tiles, tasks and ranges
  of tokens depend on shapes alone, so that results are bitwise equal with any number of threads.
- **One pass** over tokens in place: coordinates and columns of ones exist only within a tile of tokens. This requires
  coordinates that are entries times factors (`Frame.only_scales`).
- **The causal scan** (csrc/scan.hpp), token by token. The kernels keep the states of a few monomials in registers and
  process the tokens in order: each token's term is added to the state of its key set, and the query is multiplied by
  the product of the states. Everything is in float64. Tokens are added to a state one by one, each by one fused
  multiply-add; monomials are summed in one order. The backward pass also sums the gradient of a state term by term,
  from the last query to the first.
- **A few tokens of a stream** (csrc/stream.hpp), all heads in one call. The tokens of a call are summed before they are
  added to the state: a new token goes through as many roundings as there are tokens in the call, and then, with all
  earlier tokens, through one more. All other steps are counted as in `arithmetic/rounding.py`, where monomials may be
  summed in any order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.cost import chunk_tokens, scan_chunk
from separatrix.native import (
    MOST_SETS,
    REFUSED,
    Monomials,
    Pass,
    ProductsCall,
    Scan,
    ScanGradients,
    ScanResults,
    StreamCall,
)
from separatrix.native_tensors import TYPES, addresses, done, function, kernels_for, operators_are_watched, put

if TYPE_CHECKING:
    from separatrix.attention.near_linear.backend import StreamPlan
    from separatrix.attention.near_linear.sums import Expansion


NAME = "native"
TOKENS_OF_A_LANE = 64
"""A tile has 256 tokens, and a vector four lanes or more."""


def takes(tensors: Sequence[Tensor], sets: int, columns: int) -> bool:
    return sets <= MOST_SETS and kernels_for(*tensors, unless=operators_are_watched) is not None


@dataclass(frozen=True, eq=False)
class NativeMonomials:
    """An index set in the form that the kernels read, and the arrays to which it points."""

    monomials: Monomials
    arrays: tuple[np.ndarray, ...]


@lru_cache(maxsize=64)
def native_monomials(index_set: IndexSet) -> NativeMonomials:
    """The monomials as products of a stored row and a coordinate: see csrc/tile.hpp.

    Example:
        >>> from separatrix.attention.near_linear.approximation.monomials import total_degree
        >>> [array.tolist() for array in native_monomials(total_degree(2, 2)).arrays]
        [[0, 1, 2, 1, 1, 2], [2, 2, 2, 0, 1, 1], [0, 0, 0], [0, 0, 1]]
    """
    parents, last, d = index_set.parents, index_set.last, index_set.dimension
    stored = np.zeros(index_set.rank, dtype=bool)
    stored[0] = True
    stored[parents[1:]] = True
    place = np.cumsum(stored) - 1
    left, right = np.where(stored, place, place[parents]), np.where(stored, d, last)
    of_rows = place[parents[stored]], np.maximum(last[stored], 0)
    arrays = tuple(np.ascontiguousarray(column, dtype=np.int32) for column in (left, right, *of_rows))
    sizes = (index_set.rank, d, int(stored.sum()))
    return NativeMonomials(Monomials(*sizes, *(array.ctypes.data for array in arrays)), arrays)


class _Products:
    """The call of a product with tokens x (H, d', n) and columns W (H, c, n), or None, and the tensors to which it
    points."""

    def __init__(self, index_set: IndexSet, x: Tensor, W: Tensor | None, columns: int) -> None:
        self.x, self.W = _contiguous_tokens(x), None if W is None else _contiguous_tokens(W)
        self._table = native_monomials(index_set)  # kept alive: calls of other threads may evict it from the cache
        self._call = ProductsCall(TYPES[x.dtype], x.shape[0], x.shape[2], columns)
        self._call.set = ctypes.pointer(self._table.monomials)
        put(self._call.x, self.x)
        if self.W is not None:
            put(self._call.W, self.W)

    def run(self, kernel: str, *tensors: Tensor) -> None:
        done(function(kernel, 1 + len(tensors))(ctypes.byref(self._call), *(_pointer(x) for x in tensors)))


def add(index_set: IndexSet, state: Tensor, x: Tensor, W: Tensor) -> None:
    _Products(index_set, x, W, W.shape[1]).run("separatrix_products_add", state)


def sums(index_set: IndexSet, x: Tensor, M: Tensor) -> Tensor:
    heads, _, columns = M.shape
    out = x.new_empty(heads, columns, x.shape[2])
    _Products(index_set, x, None, columns).run("separatrix_products_sums", M.contiguous(), out)
    return out


def gradient(index_set: IndexSet, x: Tensor, M: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    products = _Products(index_set, x, W, W.shape[1])
    grad_x, grad_W = x.new_empty(x.shape), W.new_empty(W.shape)
    products.run("separatrix_products_gradient", M.contiguous(), grad_x, grad_W)
    return grad_x, grad_W


def _pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())


def _contiguous_tokens(x: Tensor) -> Tensor:
    """A tensor (H, d', n) whose tokens are next to each other."""
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


class NativePass:
    """A pass over tokens (H, L, d) of set m of an expansion, 0 for the queries."""

    def __init__(self, expansion: Expansion, x: Tensor, m: int, d_v: int) -> None:
        frame, index_set, weighted = expansion.frame, expansion.index_set, expansion.weighted
        self._x, self._arithmetic = x, frame.dtype
        self._factors = (frame.factors[m] * (1.0 if m else frame.scale)).contiguous()
        self._shape = (x.shape[0], index_set.rank, d_v + 1 + weighted)
        sizes = (*x.shape[:2], d_v, weighted, expansion.terms, *expansion.level)
        self._call = Pass(TYPES[x.dtype], TYPES[frame.dtype], *sizes)
        self._table = native_monomials(index_set)  # kept alive: calls of other threads may evict it from the cache
        self._call.set = ctypes.pointer(self._table.monomials)
        self._call.factors = self._factors.data_ptr()
        put(self._call.x, x)

    def state(self, values: Tensor, mask: Tensor | None, squares: Tensor | None = None) -> Tensor:
        """The state (H, rank, d_v + 1 + columns) of the tokens with values (H, L, d_v) and squares, in float64."""
        put(self._call.values, values)
        if squares is not None:
            put(self._call.weights, squares)
        if mask is not None:
            put(self._call.mask, mask)
        state = values.new_zeros(self._shape, dtype=torch.float64)
        done(function("separatrix_pass_add", 2)(ctypes.byref(self._call), _pointer(state)))
        return state

    def attend(self, M: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The results of `Sums` for the tokens as queries against M (H, rank, d_v + 2 + columns of squares)."""
        M = M.to(self._arithmetic).contiguous()
        out = self._x.new_empty(*self._x.shape[:2], self._call.d_v)
        sums = [
            self._x.new_empty(self._x.shape[:2], dtype=torch.float64) for _ in range(3 if self._call.weighted else 2)
        ]
        results = [_pointer(x) for x in (M, out, *sums)]
        results += [ctypes.c_void_p()] * (5 - len(results))
        done(function("separatrix_pass_attend", 6)(ctypes.byref(self._call), *results))
        return out, sums[0], sums[1], sums[2] if self._call.weighted else None


def one_pass(expansion: Expansion, x: Tensor, m: int, values: Tensor) -> NativePass | None:
    if not expansion.frame.only_scales or x.dtype not in TYPES or values.dtype != x.dtype:
        return None
    if (x.shape[2] > 1 and x.stride(2) != 1) or (values.shape[2] > 1 and values.stride(2) != 1):
        return None
    return NativePass(expansion, x, m, values.shape[2])


def scan_tokens(heads: int, rank: int, columns: int, sets: int, is_backward: bool) -> int:
    return scan_chunk(heads, rank, columns, is_backward)


def scan_summing(call: Call, rank: int) -> Summing:
    """Keys before the first query are summed in chunks, and later keys one token after the other."""
    chunk = chunk_tokens(call.query.shape[0], rank, True)
    return Summing(max(chunk, *call.key_lengths), chunk)


def scan(
    expansion: Expansion, query: Tensor, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    given = _ScanCall(expansion, query, x, W, Z)
    heads, columns, length = W[0].shape
    totals, columns = query.new_empty(heads, length, columns + 1), columns - expansion.weighted
    after = [torch.empty_like(z) for z in given.Z]
    results = ScanResults(totals.data_ptr(), addresses(after))
    done(function("separatrix_scan_forward", 2)(ctypes.byref(given.call), ctypes.byref(results)))
    return totals[..., :columns], totals[..., columns:], after


def scan_keys(expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> list[Tensor]:
    given = _ScanCall(expansion, None, x, W, Z)
    after = [torch.empty_like(z) for z in given.Z]
    results = ScanResults(None, addresses(after))
    done(function("separatrix_scan_forward", 2)(ctypes.byref(given.call), ctypes.byref(results)))
    return after


def scan_backward(
    expansion: Expansion,
    query: Tensor,
    x: list[Tensor],
    W: list[Tensor],
    Z: list[Tensor],
    grad: Tensor,
    grad_Z: list[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    given = _ScanCall(expansion, query, x, W, Z)
    grad, grad_Z = grad.contiguous(), [z.contiguous() for z in grad_Z]
    grad_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    grad_x, grad_W, before = ([torch.empty_like(y) for y in tensors] for tensors in (given.x, given.W, given.Z))
    gradients = ScanGradients(
        grad.data_ptr(),
        addresses(grad_Z),
        grad_query.data_ptr(),
        addresses(grad_x),
        addresses(grad_W),
        addresses(before),
    )
    done(function("separatrix_scan_backward", 2)(ctypes.byref(given.call), ctypes.byref(gradients)))
    return grad_query, grad_x, grad_W, before


class _ScanCall:
    """The arguments of a scan in the form that the kernels read, and the tensors to which they point; the query may be
    None."""

    def __init__(
        self, expansion: Expansion, query: Tensor | None, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
    ) -> None:
        index_set = expansion.index_set
        self.query = None if query is None else query.contiguous()
        self.x, self.W, self.Z = ([y.contiguous() for y in tensors] for tensors in (x, W, Z))
        self._last, self._parents = (torch.from_numpy(a).contiguous() for a in (index_set.last, index_set.parents))
        terms, weighted = expansion.terms, expansion.weighted
        self._coefficients = expansion.all_coefficients().contiguous()
        self._moments = None if expansion.moment is None else expansion.moment_weights()
        heads, columns, length = W[0].shape
        self.call = Scan(
            *(heads, len(W), length, index_set.dimension, columns - weighted, index_set.rank, weighted, terms),
            *(self._last.data_ptr(), self._parents.data_ptr(), self._coefficients.data_ptr()),
            *(None if y is None else y.data_ptr() for y in (self._moments, self.query)),
            *(addresses(tensors) for tensors in (self.x, self.W, self.Z)),
        )


class NativeStream:
    """Calls the kernels for the states of one plan.

    An instance is never modified, so that threads may share it: every call fills its own `StreamCall`, because ctypes
    releases the global interpreter lock while a kernel reads it.

    """

    ONE_BY_ONE = True

    def __init__(self, plan: StreamPlan) -> None:
        self._plan, self._table, self._sets = plan, native_monomials(plan.index_set), len(plan.factors) - 1
        sizes = {"heads": plan.heads, "sets": self._sets, "d_v": plan.value_dim}
        self._template = StreamCall(**sizes, most=plan.most, norm=plan.norm)
        self._template.set = ctypes.pointer(self._table.monomials)
        self._template.coefficients = plan.coefficients.data_ptr()
        self._template.factors[: self._sets + 1] = plan.factors

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
        out = torch.empty(*query.shape[:-1], self._plan.value_dim, dtype=given.dtype)
        code = function("separatrix_stream_attend", 3)(ctypes.byref(call), out.data_ptr(), ctypes.byref(reached))
        if code == REFUSED:
            return None
        done(code)
        return out.to(query.dtype), reached.value


def _readable(x: Tensor) -> Tensor:
    """A tensor in the form that the kernels read: contiguous, with half types converted to float32, which is exact."""
    return (x if x.dtype in TYPES else x.to(torch.float32)).contiguous()


stream_kernels = NativeStream
