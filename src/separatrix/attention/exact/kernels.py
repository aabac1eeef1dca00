"""Exact attention by the kernels in C++: the backend for the CPU.

How the kernels work is told in csrc/exact_sets.hpp. They read tensors where they lie, in whatever type, and write
results in it: half types are widened and rounded row by row (csrc/stored.hpp). Heads of queries that share keys and
values read the same ones; the gradients of those are added up inside, head after head, before they are rounded. Nothing
is copied but a tensor whose columns do not lie side by side. The tangents of forward mode, which training does not
need, are those of `blocks`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summation, kernel_gradient_sum, kernel_sum
from separatrix.attention.call import Call, Gradients
from separatrix.attention.exact.balance import NEAR, Size, room
from separatrix.attention.exact.blocks import tangents
from separatrix.errors import ArgumentError
from separatrix.native import (
    MOST_SETS,
    ExactCall,
    ExactGradients,
    ExactLevels,
    ExactRange,
    done,
    function,
    native,
)
from separatrix.native_tensors import HALF_TYPES, TYPES, put

NAME = "native"
TAKES_AS_GIVEN = True

__all__ = [
    "NAME",
    "TAKES_AS_GIVEN",
    "backward",
    "forward",
    "gradient_summation",
    "size_of",
    "summation",
    "takes",
    "tangents",
    "unproved",
]


def takes(call: Call, dtype: torch.dtype | None = None) -> bool:
    """Whether there are kernels for a call: on the CPU, where the library is installed, unless the call is empty."""
    on_cpu = call.query.device.type == "cpu" and native().library is not None
    return on_cpu and len(call.keys) <= MOST_SETS and not call.is_empty


def size_of(call: Call) -> Size:
    """Whether the factors of a call are of a size that needs no balancing; what a mask hides is not looked at."""
    found = ExactRange(room=room(call.computed_in), near=NEAR[call.computed_in])
    done(_function("range", 2)(ctypes.byref(_described(call)), ctypes.byref(found)))
    return Size(bool(found.moderate), bool(found.near_one), found.log_output)


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the type of the call, and the log-sum-exp (H, L_q) in that of the arithmetic."""
    out = call.query.new_empty(*call.query.shape[:2], call.values[0].shape[2])
    lse = call.query.new_empty(call.query.shape[:2], dtype=call.computed_in)
    done(_function("forward", 3)(ctypes.byref(_described(call)), out.data_ptr(), lse.data_ptr()))
    return out, lse


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, from those of the output and of the log-sum-exp."""
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


def summation(call: Call, dtype: torch.dtype) -> Summation:
    """How a weight gets into the sums of its query when the call is computed in a type."""
    found = _levels(call, dtype)
    return kernel_sum(call.order, found.chunk, found.rows, found.tiles, found.chunks)


def gradient_summation(call: Call, dtype: torch.dtype) -> Summation:
    """How the backward pass adds up when it is computed in a type."""
    found = _levels(call, dtype)
    blocks = (found.query_block, found.query_blocks)
    return kernel_gradient_sum(call.order, found.chunk, found.pairs, found.groups, *blocks, call.shared)


def unproved(call: Call, dtype: torch.dtype) -> str | None:
    """None: every rounding of the kernels stands in their source, half types being widened before anything else."""
    return None


@cache
def _function(name: str, arguments: int) -> Callable[..., int]:
    return function(f"separatrix_exact_{name}", arguments)


def _levels(call: Call, dtype: torch.dtype) -> ExactLevels:
    found = ExactLevels()
    _function("levels", 2)(ctypes.byref(_shape(call, dtype)), ctypes.byref(found))
    return found


def _shape(call: Call, dtype: torch.dtype) -> ExactCall:
    """The sizes of a call, without its tensors."""
    described = ExactCall()
    described.type, described.sets = (TYPES | HALF_TYPES)[dtype], len(call.keys)
    described.heads, described.query_length, described.d = call.query.shape
    described.d_v, described.shared, described.mask_shared = call.values[0].shape[2], call.shared, 1
    if call.masks:
        described.mask_shared = call.query.shape[0] // call.masks[0].shape[0]
    described.is_causal, described.offset, described.scale = call.positions.is_causal, call.positions.offset, call.scale
    for m, (length, window) in enumerate(zip(call.key_lengths, call.positions.windows, strict=True)):
        described.lengths[m], described.windows[m] = length, -1 if window is None else window
    return described


def _check_type(name: str, x: Tensor, dtype: torch.dtype) -> None:
    """Refuse a tensor of another type than the kernels would read it in: that would give any numbers."""
    if x.dtype != dtype:
        raise ArgumentError(name, expected=f"{dtype}, by the type of the query", got=x.dtype)


def _described(call: Call) -> ExactCall:
    """The call for the kernels, made once; what it names in memory lives as long as the call."""
    found: ExactCall | None = call.kept.get("described")
    if found is not None:
        return found
    described = _shape(call, call.query.dtype)
    tensors = [*(_side_by_side(x) for x in call.tensors), *call.masks]
    count = len(call.keys)
    for index, x in enumerate(call.tensors):
        _check_type(call.name(index), x, call.query.dtype)
    put(described.query, tensors[0])
    for places, first in ((described.keys, 1), (described.values, 1 + count), (described.masks, 1 + 2 * count)):
        for m, x in enumerate(tensors[first : first + count]):
            put(places[m], x)
    call.kept.update(described=described, tensors=tensors)
    return described


def _side_by_side(x: Tensor) -> Tensor:
    """The tensor, or a copy where its columns do not lie side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()
