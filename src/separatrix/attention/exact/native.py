"""Exact attention by the kernels in C++: the backend for the CPU.

csrc/exact_sets.hpp describes the kernels. They read tensors in place, in any dtype, and write results in the same
dtype: half types are widened and rounded row by row (csrc/stored.hpp). Query heads that share keys and values read the
same memory; the gradients of shared keys and values are summed in float32 over the heads before they are rounded. Only
a tensor with non-contiguous columns is copied. The tangents of forward mode, which training does not need, are computed
by the backend `torch`.

Attention in float16 is computed in float32 and takes as long; so does attention in bfloat16, except for the forward
pass of order 3 and higher on processors with fast dot products of bfloat16 (vdpbf16ps: the architecture
``avx512_bf16``, chosen on AMD's Zen 4 and later). In that pass weights are rounded to bfloat16 before they are
multiplied by values, as in PyTorch's fused attention; for queries whose typical score is below 1, products of query and
prefix keys are rounded, too, before they are multiplied by keys. Sums stay in float32. At n = 512 this takes 0.55 of
the time of float32, and about 0.85 for queries with larger scores, whose scores are computed in float32. `error_bound`
bounds the error. The backward pass is computed in float32, and so are calls with a tolerance, and short sequences, for
which `csrc/exact_merged.hpp` materialises all pairs of keys.

Intel's Sapphire Rapids also has the instruction, but it is slow there: 0.716 ns for 64 products, against 0.179 ns for
16 in float32. On processors with AMX the architecture ``avx512_amx`` makes the same roundings and multiplies tiles of
bfloat16 instead (tdpbf16ps). This architecture is compiled and tested with emulated instructions; it has not run on
hardware.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summation, kernel_gradient_sum, kernel_sum
from separatrix.attention.call import Call, Gradients, Positions
from separatrix.attention.exact.balance import NEAR, Size, room
from separatrix.attention.exact.torch import tangents
from separatrix.errors import ArgumentError
from separatrix.native import (
    MOST_SETS,
    ExactBounds,
    ExactCall,
    ExactGradients,
    ExactLevels,
    ExactRange,
    native,
)
from separatrix.native_tensors import HALF_TYPES, TYPES, done, function, kernels_for, put

NAME = "native"
TAKES_AS_GIVEN = True

__all__ = [
    "NAME",
    "TAKES_AS_GIVEN",
    "PlainCall",
    "backward",
    "entry_bounds",
    "forward",
    "gradient_summation",
    "size_of",
    "summation",
    "takes",
    "tangents",
    "unproved",
]


def takes(call: Call, dtype: torch.dtype | None = None) -> bool:
    """Whether the kernels support a call: on the CPU, if the library is installed and the call is not empty."""
    return call.query.device.type == "cpu" and has_kernels(len(call.keys)) and not call.is_empty


def has_kernels(sets: int) -> bool:
    """Whether the library is installed and supports this number of key sets."""
    return native().library is not None and sets <= MOST_SETS


def size_of(call: Call) -> Size:
    """Whether the factors of a call need no balancing; masked keys are ignored."""
    factor_range = _range(_described(call), call.computed_in)
    return Size(bool(factor_range.moderate), bool(factor_range.near_one), factor_range.log_output)


def _range(described: ExactCall, dtype: torch.dtype) -> ExactRange:
    factor_range = ExactRange.from_buffer_copy(_limits(dtype))
    done(_function("range", 2)(ctypes.byref(described), ctypes.byref(factor_range)))
    return factor_range


@cache
def _limits(dtype: torch.dtype) -> bytes:
    return bytes(ExactRange(room=room(dtype), near=NEAR[dtype]))


class PlainCall(NamedTuple):
    """A call of tensors with any leading dimensions; keys and values may have fewer heads than the query.

    A `Call` has its heads in one dimension, and constructing a `Call` takes as long as attention of a few short heads.

    Attributes:
        tensors: The query, the keys and the values.
        masks: None or a mask for each key set, (L_m,) if all heads share it and (heads, L_m) if not.
        positions: Which keys a query may attend by its position.
        scale: The factor of every score.
        shared: The number of consecutive query heads that share a head of keys and values.
        mask_shared: The number of consecutive query heads that share a head of the masks: `shared` or 1.
    """

    tensors: tuple[Tensor, ...]
    masks: tuple[Tensor | None, ...]
    positions: Positions
    scale: float
    shared: int
    mask_shared: int

    def _described(self) -> tuple[ExactCall, list[Tensor]]:
        """The kernel call, and the tensors to whose memory it points."""
        positions, sets = self.positions, len(self.masks)
        shapes = [x.shape for x in self.tensors]
        *leading, length, d = shapes[0]
        sizes = (math.prod(leading), length, d, shapes[-1][-1], self.shared, self.mask_shared)
        lengths = tuple([shape[-2] for shape in shapes[1 : sets + 1]])
        where = (positions.is_causal, positions.offset, positions.windows)
        described = ExactCall.from_buffer_copy(_sizes(self.tensors[0].dtype, sizes, lengths, *where, self.scale))
        named = []
        for x, shape, offset in zip(self.tensors, shapes, _offsets(sets), strict=True):
            if x.is_contiguous():
                _ADDRESS.pack_into(described, offset, x.data_ptr(), shape[-2] * shape[-1], shape[-1])
            else:
                x = _side_by_side(x.unsqueeze(0) if len(shape) == 2 else x.flatten(0, -3))
                _put(described, offset, (x,))
            named.append(x)
        for m, mask in enumerate(self.masks):
            if mask is not None:
                strides = (0, *mask.stride()) if mask.dim() == 1 else mask.stride()
                _ADDRESS.pack_into(described, _MASKS + m * _ADDRESS.size, mask.data_ptr(), *strides)
        return described, named

    def forward(self) -> tuple[Tensor, Tensor, bool] | None:
        """The output (..., L_q, d_v), the log-sum-exp (..., L_q) and whether `backward` supports the call; None if
        `guarded` must rescale them."""
        query, dtype = self.tensors[0], _computed_in(self.tensors[0].dtype)
        described, _named = self._described()
        factor_range = _range(described, dtype)
        if not factor_range.moderate or factor_range.log_output > _LARGEST_OUTPUT:
            return None
        leading = query.shape[:-1]
        out, lse = query.new_empty((*leading, self.tensors[-1].shape[-1])), query.new_empty(leading, dtype=dtype)
        done(_function("forward", 3)(ctypes.byref(described), out.data_ptr(), lse.data_ptr()))
        return out, lse, bool(factor_range.near_one)

    def forward_within(
        self, terms: tuple[float, ...], accept: Callable[[ExactBounds], bool]
    ) -> tuple[Tensor, Tensor, Tensor, ExactBounds] | None:
        """The output, the log-sum-exp, bounds (..., L_q) on the errors of the output, and the inputs of these bounds.

        None if `forward` returns None or `accept` rejects the bounds. `terms` are the first five of `ErrorTerms`. The
        dtype is one of `TYPES`, and no heads share keys.
        """
        query = self.tensors[0]
        described, _named = self._described()
        factor_range = _range(described, query.dtype)
        if not factor_range.moderate or factor_range.log_output > _LARGEST_OUTPUT:
            return None
        leading, wide = query.shape[:-1], torch.float64
        heads = described.heads
        head_bounds = query.new_empty(2 * heads + query.numel() // query.shape[-1], dtype=wide)
        errors, address = query.new_empty(leading, dtype=wide), head_bounds.data_ptr()
        bounds = ExactBounds(0, 0.0, 0.0, 0.0, address, address + 8 * heads, address + 16 * heads, *terms)
        bounds.errors = errors.data_ptr()
        done(_function("bounds", 2)(ctypes.byref(described), ctypes.byref(bounds)))
        assert bounds.is_finite, "moderate factors are finite"
        if not accept(bounds):
            return None
        out, lse = query.new_empty((*leading, self.tensors[-1].shape[-1])), query.new_empty(leading)
        done(_function("forward", 3)(ctypes.byref(described), out.data_ptr(), lse.data_ptr()))
        return out, lse, errors, bounds

    def backward(self, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None) -> list[Tensor]:
        """The gradients of all tensors; all arguments must be contiguous, and `grad_lse` None means zeros."""
        described, _named = self._described()
        gradients, length, d_v = ExactGradients(), *out.shape[-2:]
        block = length * d_v
        of_lse = (_ZERO.data_ptr(), 0, 0) if grad_lse is None else (grad_lse.data_ptr(), length, 1)
        results = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in self.tensors]
        query, *sets = [x.data_ptr() for x in results]
        read = (out.data_ptr(), block, d_v, lse.data_ptr(), length, 1, grad_out.data_ptr(), block, d_v)
        _GIVEN.pack_into(gradients, 0, *read, *of_lse, query)
        _pointers(len(self.masks)).pack_into(gradients, _GIVEN.size, *sets)
        done(_function("backward", 2)(ctypes.byref(described), ctypes.byref(gradients)))
        return results


_ZERO = torch.zeros((), dtype=torch.float64)
"""A zero in every floating-point type: the gradient of every log-sum-exp, by strides of 0, where it has none."""
_LARGEST_OUTPUT = 15.0
"""log2 of a magnitude that every dtype can represent."""


def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the call's dtype, and the log-sum-exp (H, L_q) in the dtype of the arithmetic."""
    out = call.query.new_empty(*call.query.shape[:2], call.values[0].shape[2])
    lse = call.query.new_empty(call.query.shape[:2], dtype=call.computed_in)
    done(_function("forward", 3)(ctypes.byref(_described(call)), out.data_ptr(), lse.data_ptr()))
    return out, lse


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, from the gradients of the output and of the log-sum-exp."""
    gradients = ExactGradients()
    read = {"out": _side_by_side(out), "lse": lse, "grad_out": _side_by_side(grad_out), "grad_lse": grad_lse}
    for name, x in read.items():
        _check_type(name, x, call.computed_in if name.endswith("lse") else call.query.dtype)
        put(getattr(gradients, name), x)
    query, *sets = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in call.tensors)
    count = len(call.keys)
    keys, values = sets[:count], sets[count:]
    gradients.grad_query = query.data_ptr()
    for m, (key, value) in enumerate(zip(keys, values, strict=True)):
        gradients.grad_keys[m], gradients.grad_values[m] = key.data_ptr(), value.data_ptr()
    done(_function("backward", 2)(ctypes.byref(_described(call)), ctypes.byref(gradients)))
    return query, keys, values


def entry_bounds(call: Call) -> tuple[ExactBounds, Tensor, Tensor, Tensor] | None:
    """Bounds on the entries and scores of a call, with the tensors `width` (H, 1), `largest` (H, 1) and `radii`
    (H, L_q) of `separatrix_bounds` in csrc/separatrix.h; None where the kernels cannot compute them.
    """
    heads, length, _ = call.query.shape
    supported = call.query.dtype in TYPES and len(call.keys) <= MOST_SETS
    if not supported or any(x.shape[0] != heads for x in (*call.keys, *call.masks)):
        return None
    if kernels_for(*call.tensors, *call.masks) is None:
        return None
    width, largest, radii = (call.query.new_empty(heads, n, dtype=torch.float64) for n in (1, 1, length))
    bounds = ExactBounds(width=width.data_ptr(), largest=largest.data_ptr(), radii=radii.data_ptr())
    done(_function("bounds", 2)(ctypes.byref(_described(call)), ctypes.byref(bounds)))
    return bounds, width, largest, radii


def summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the forward pass over the weights of a query, in a dtype."""
    levels = _levels(call, dtype)
    steps = kernel_sum(call.order, levels.chunk, levels.rows, levels.tiles, levels.chunks).steps
    return Summation(steps, torch.finfo(torch.bfloat16).eps / 2 if levels.is_narrow else 0.0)


def gradient_summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the backward pass in a dtype."""
    levels = _levels(call, dtype)
    blocks = (levels.query_block, levels.query_blocks)
    return kernel_gradient_sum(call.order, levels.chunk, levels.pairs, levels.groups, *blocks, call.shared)


def unproved(call: Call, dtype: torch.dtype) -> str | None:
    """None: every rounding of the kernels is visible in their source; `summation` says whether they round to
    bfloat16."""
    return None


@cache
def _function(name: str, arguments: int) -> Callable[..., int]:
    return function(f"separatrix_exact_{name}", arguments)


def _levels(call: Call, dtype: torch.dtype) -> ExactLevels:
    levels = ExactLevels()
    _function("levels", 2)(ctypes.byref(_shape(call, dtype)), ctypes.byref(levels))
    return levels


def _shape(call: Call, dtype: torch.dtype) -> ExactCall:
    """The sizes of a call, without its tensors."""
    mask_shared = call.query.shape[0] // call.masks[0].shape[0] if call.masks else 1
    sizes = (*call.query.shape, call.values[0].shape[2], call.shared, mask_shared)
    positions = call.positions
    where = (positions.is_causal, positions.offset, positions.windows)
    return ExactCall.from_buffer_copy(_sizes(dtype, sizes, call.key_lengths, *where, call.scale))


@lru_cache(maxsize=256)
def _sizes(
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    lengths: tuple[int, ...],
    is_causal: bool,
    offset: int,
    windows: tuple[int | None, ...],
    scale: float,
) -> bytes:
    """The bytes of a call without its tensors, cached because writing them takes as long as attention of a few short
    heads."""
    described = ExactCall()
    described.type, described.sets = (TYPES | HALF_TYPES)[dtype], len(lengths)
    described.heads, described.query_length, described.d, described.d_v, described.shared, described.mask_shared = sizes
    described.is_causal, described.offset, described.scale = is_causal, offset, scale
    for m, (length, window) in enumerate(zip(lengths, windows, strict=True)):
        described.lengths[m], described.windows[m] = length, -1 if window is None else window
    return bytes(described)


def _check_type(name: str, x: Tensor, dtype: torch.dtype) -> None:
    """Raise an error for a tensor whose dtype differs from the one that the kernels would read: the result would be
    arbitrary."""
    if x.dtype != dtype:
        raise ArgumentError(name, expected=f"{dtype}, by the type of the query", got=x.dtype)


def _described(call: Call) -> ExactCall:
    """The call as the structure that the kernels read, created once; the memory to which it points lives as long as the
    call."""
    described_before: ExactCall | None = call.kept.get("described")
    if described_before is not None:
        return described_before
    described = _shape(call, call.query.dtype)
    tensors = [_side_by_side(x) for x in call.tensors]
    for index, x in enumerate(tensors):
        if x.dtype != call.query.dtype:
            _check_type(call.name(index), x, call.query.dtype)
    _put(described, _QUERY, tensors[:1])
    _put(described, _KEYS, tensors[1 : 1 + len(call.keys)])
    _put(described, _VALUES, tensors[1 + len(call.keys) :])
    _put(described, _MASKS, call.masks)
    call.kept.update(described=described, tensors=tensors)
    return described


_ADDRESS = struct.Struct("=3q")
_QUERY, _KEYS, _VALUES, _MASKS = (getattr(ExactCall, name).offset for name in ("query", "keys", "values", "masks"))
_GIVEN = struct.Struct("=13q")
"""The first fields of `ExactGradients`: four addresses with their strides, and the address of the query's gradient."""


@cache
def _pointers(sets: int) -> struct.Struct:
    """The last fields of `ExactGradients`: the addresses of the gradients of this number of key and value sets."""
    return struct.Struct(f"={sets}q{8 * (MOST_SETS - sets)}x{sets}q")


@cache
def _offsets(sets: int) -> tuple[int, ...]:
    """The offsets in the structure of the addresses of a query, its keys and its values."""
    return (_QUERY, *(first + m * _ADDRESS.size for first in (_KEYS, _VALUES) for m in range(sets)))


def _put(described: ExactCall, offset: int, tensors: Sequence[Tensor]) -> None:
    """Write the addresses and strides of tensors into the structure, from the byte `offset` on.

    `put` does the same for one tensor, and takes four times as long.
    """
    for x in tensors:
        _ADDRESS.pack_into(described, offset, x.data_ptr(), *x.stride()[:2])
        offset += _ADDRESS.size


def _side_by_side(x: Tensor) -> Tensor:
    """The tensor, or a copy if its columns are not contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()
