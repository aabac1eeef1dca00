"""Products with monomials by the kernels in C++, which write none of them: a tile of tokens at a time, in cache.

`csrc/near_linear.hpp` says in which order they add up. Counted as in `arithmetic/rounding.py`, a token goes through no
more roundings in the type of the monomials than a tile has tokens in a lane, of which there are 128 at the most; then,
in float64, through four for the lanes, one for each tile of its task, one for each task of its head, and one for each
call of `add`. Of n tokens, a task has no more than n / 128 + 2 tiles, nor more than 514, because it has 2^16 tokens or
fewer; and a head has no more tasks than 16 or n / 2^16 + 1. Tiles, tasks and ranges of tokens depend on shapes alone,
so that results are the same, bit for bit, with any number of threads.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.native import Monomials, ProductsCall, done
from separatrix.native_tensors import TYPES, put

TOKENS_OF_A_LANE = 64
"""The largest number of tokens whose monomials are added up in float32: a tile has 256, and a vector four lanes or
more."""


@dataclass(frozen=True, eq=False)
class Laid:
    """An index set as the kernels take it, and the arrays that it points to."""

    monomials: Monomials
    arrays: tuple[np.ndarray, ...]


@lru_cache(maxsize=64)
def laid(index_set: IndexSet) -> Laid:
    """The monomials as products of a stored row and a coordinate: see csrc/tile.hpp.

    Example:
        >>> from separatrix.attention.near_linear.approximation.monomials import total_degree
        >>> [array.tolist() for array in laid(total_degree(2, 2)).arrays]
        [[0, 1, 2, 1, 1, 2], [2, 2, 2, 0, 1, 1], [0, 0, 0], [0, 0, 1]]
    """
    parents, last, d = index_set.parents, index_set.last, index_set.dimension
    stored = np.zeros(index_set.rank, dtype=bool)
    stored[0] = True
    stored[parents[1:]] = True
    place = np.cumsum(stored) - 1
    left, right = np.where(stored, place, place[parents]), np.where(stored, d, last)
    of_rows = place[parents[stored]], np.maximum(last[stored], 0)
    arrays = tuple(np.ascontiguousarray(one, dtype=np.int32) for one in (left, right, *of_rows))
    sizes = (index_set.rank, d, int(stored.sum()))
    return Laid(Monomials(*sizes, *(array.ctypes.data for array in arrays)), arrays)


class NativeProducts:
    """The products of `Products`, by the kernels."""

    def __init__(self, library: ctypes.CDLL, index_set: IndexSet, heads: int, columns: int, like: Tensor) -> None:
        self._library, self._like, self._laid = library, like, laid(index_set)
        self._heads, self._columns, self._shape = heads, columns, (heads, index_set.rank, columns)

    def _call(self, x: Tensor, W: Tensor | None) -> ProductsCall:
        sizes = (TYPES[self._like.dtype], self._heads, x.shape[2], self._columns)
        call = ProductsCall(*sizes, ctypes.pointer(self._laid.monomials))
        put(call.x, x)
        if W is not None:
            put(call.W, W)
        return call

    def _tokens_side_by_side(self, x: Tensor) -> Tensor:
        assert x.dtype == self._like.dtype
        return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()

    def start(self) -> list[Tensor]:
        return [self._like.new_zeros(self._shape, dtype=torch.float64)]

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        x, W = self._tokens_side_by_side(x), self._tokens_side_by_side(W)
        done(self._library.separatrix_products_add(ctypes.byref(self._call(x, W)), _pointer(state[0])))

    def finish(self, state: list[Tensor]) -> Tensor:
        return state[0]

    def prepare(self, M: Tensor) -> list[Tensor]:
        return [M.to(self._like.dtype).contiguous()]

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        x = self._tokens_side_by_side(x)
        out = x.new_empty(self._heads, self._columns, x.shape[2])
        call = self._call(x, None)
        done(self._library.separatrix_products_sums(ctypes.byref(call), _pointer(M[0]), _pointer(out)))
        return out

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        if state is not None:
            self.add(state, x, W)
        x, W = self._tokens_side_by_side(x), self._tokens_side_by_side(W)
        grad_x, grad_W = x.new_empty(x.shape), W.new_empty(W.shape)
        found = _pointer(grad_x), _pointer(grad_W)
        done(self._library.separatrix_products_gradient(ctypes.byref(self._call(x, W)), _pointer(M[0]), *found))
        return grad_x, grad_W


def _pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())
