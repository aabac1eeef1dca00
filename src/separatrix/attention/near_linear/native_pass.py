"""Near-linear attention by the kernels in C++ in one pass over each set, with tokens taken as they lie in memory.

Coordinates and columns of ones are made in a tile of tokens and nowhere else. That takes coordinates that are entries
times factors (`Frame.only_scales`); for others, and for gradients, `products` is given chunks of coordinates. Both add
up in the order that csrc/near_linear.hpp tells, and are counted by `Summing`.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.native import laid
from separatrix.native import Pass, done
from separatrix.native_tensors import TYPES, kernels_for, put


class NativePass:
    """A pass over tokens (H, L, d) of set m of a frame, 0 for the queries."""

    def __init__(self, library: ctypes.CDLL, frame: Frame, index_set: IndexSet, x: Tensor, m: int, d_v: int) -> None:
        self._library, self._x, self._arithmetic = library, x, frame.dtype
        self._factors = (frame.factors[m] * (1.0 if m else frame.scale)).contiguous()
        self._shape = (x.shape[0], index_set.rank, d_v + 1)
        self._call = Pass(TYPES[x.dtype], TYPES[frame.dtype], x.shape[0], x.shape[1], d_v)
        self._laid = laid(index_set)  # held here: another thread's calls may push it out of the cache of `laid`
        self._call.set = ctypes.pointer(self._laid.monomials)
        self._call.factors = self._factors.data_ptr()
        put(self._call.x, x)

    def state(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The state (H, rank, d_v + 1) of the tokens with their values (H, L, d_v), in float64."""
        put(self._call.values, values)
        if mask is not None:
            put(self._call.mask, mask)
        state = values.new_zeros(self._shape, dtype=torch.float64)
        done(self._library.separatrix_pass_add(ctypes.byref(self._call), _pointer(state)))
        return state

    def attend(self, M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens as queries against M (H, rank, d_v + 2): output (H, L, d_v), denominator and moment (H, L)."""
        M = M.to(self._arithmetic).contiguous()
        out = self._x.new_empty(*self._x.shape[:2], self._call.d_v)
        denominator, moment = (self._x.new_empty(self._x.shape[:2], dtype=torch.float64) for _ in range(2))
        found = (_pointer(each) for each in (M, out, denominator, moment))
        done(self._library.separatrix_pass_attend(ctypes.byref(self._call), *found))
        return out, denominator, moment


def native_pass(frame: Frame, index_set: IndexSet, x: Tensor, m: int, values: Tensor) -> NativePass | None:
    """A pass over tokens of set m that belong with values; None where the kernels do not take them as they lie."""
    if not frame.only_scales or x.dtype not in TYPES or values.dtype != x.dtype:
        return None
    if any(each.shape[2] > 1 and each.stride(2) != 1 for each in (x, values)):
        return None
    library = kernels_for(x, values)
    return None if library is None else NativePass(library, frame, index_set, x, m, values.shape[2])


def _pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())
