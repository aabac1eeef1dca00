"""A call of order 3 as the kernels in Triton take it, and their launches.

The kernels want entries side by side, so tensors that lie otherwise are copied; that is linear in the lengths, and the
work is not. Queries come in the type of the arithmetic, multiplied by the scale and by log2(e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.call import Call, Gradients
from separatrix.attention.dispatch.gpu import REGISTERS, padded, vendor
from separatrix.attention.exact.gpu.configurations import configuration, width_of

LOG2_E = 1.4426950408889634
FARTHEST = 1 << 23
"""Lengths and offsets up to here fit the kernels' 32-bit numbers, and so do places in a head of 128 columns."""


@dataclass(frozen=True)
class Described:
    """A call as the kernels take it.

    Attributes:
        prefix: The index of the key set that is visited key by key; the other one is visited by blocks.
        tensors: The queries, the prefix keys and values, the inner keys and values, and their masks.
        sizes: The whole numbers of the kernels' signature.
        flags: What the kernels are compiled for.
    """

    prefix: int
    tensors: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    flags: dict[str, Any]


def prefix_of(call: Call) -> int:
    """The index of the key set that is visited key by key: the one of which a query attends fewer keys."""
    windows = call.positions.windows
    first, second = (
        length if window is None else min(window, length)
        for length, window in zip(call.key_lengths, windows, strict=True)
    )
    return 1 if first > second else 0


def described(call: Call, precision: str) -> Described:
    """The call for the kernels, made once for all passes over it."""
    found: Described | None = call.kept.get("gpu")
    if found is None or found.flags["PRECISION"] != precision:
        found = call.kept["gpu"] = _described(call, precision)
    return found


def _described(call: Call, precision: str) -> Described:
    heads, queries, d = call.query.shape
    d_v = call.values[0].shape[2]
    windows, prefix = call.positions.windows, prefix_of(call)
    order = (prefix, 1 - prefix)
    left = (call.query.to(call.computed_in) * (call.scale * LOG2_E)).contiguous()
    sets = [x for m in order for x in (call.keys[m].contiguous(), call.values[m].contiguous())]
    # A pointer that is not read has to point somewhere.
    masks = [call.masks[m].contiguous().view(torch.uint8) if call.masks else call.keys[0] for m in order]
    mask_shared = heads // call.masks[0].shape[0] if call.masks else 1
    ends = [min(windows[m] or 0, 2 * FARTHEST) for m in order]  # 0 stands for no window, and is not looked at
    lengths = [call.key_lengths[m] for m in order]
    return Described(
        prefix,
        (left, *sets, *masks),
        (queries, *lengths, call.positions.offset, *ends, call.shared, mask_shared),
        {
            "CAUSAL": call.positions.is_causal,
            "PREFIX_WINDOW": windows[prefix] is not None,
            "INNER_WINDOW": windows[1 - prefix] is not None,
            "MASKED": bool(call.masks),
            "PRECISION": precision,
            "d": d,
            "d_v": d_v,
            "D": padded(d),
            "D_V": padded(d_v),
        },
    )


def forward(call: Call, precision: str) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the type of the call, and the log-sum-exp (H, L_q) in that of its arithmetic."""
    heads, queries, _ = call.query.shape
    out = call.query.new_empty(heads, queries, call.values[0].shape[2])
    lse = call.query.new_empty(heads, queries, dtype=call.computed_in)
    _launch("attend", call, precision, heads, queries, (out, lse))
    return out, lse * math.log(2.0)


def gradients(call: Call, precision: str, rows: tuple[Tensor, ...]) -> Gradients:
    """The gradients of a call in the type of its arithmetic: of queries over the scale, of keys times log2(e).

    Args:
        call: The call.
        precision: How products of float32 are computed, "ieee" or "tf32".
        rows: For each query the incoming gradient, the log-sum-exp to base 2, delta and its share of the head's power.
    """

    def empty(x: Tensor) -> Tensor:
        return torch.empty_like(x, dtype=call.computed_in, memory_format=torch.contiguous_format)

    query, keys, values = empty(call.query), [empty(x) for x in call.keys], [empty(x) for x in call.values]
    prefix = prefix_of(call)
    heads, lengths = call.keys[0].shape[0], call.key_lengths
    _launch("query_gradient", call, precision, call.query.shape[0], call.query.shape[1], (*rows, query, query))
    for kernel, m in (("inner_gradient", 1 - prefix), ("prefix_gradient", prefix)):
        _launch(kernel, call, precision, heads, lengths[m], (*rows, keys[m], values[m]))
    return query, keys, values


def _launch(kernel: str, call: Call, precision: str, heads: int, length: int, tensors: tuple[Tensor, ...]) -> None:
    """Run a kernel over all heads and blocks of what it computes, `length` rows of each head."""
    found = described(call, precision)
    block = configuration(kernel, call.query.dtype, width_of(call), precision=precision)
    rows = {"inner_gradient": block.keys, "prefix_gradient": 1}.get(kernel, block.queries)
    # Imported when it is first launched, because this imports Triton.
    program = getattr(import_module(f"separatrix.attention.exact.gpu.programs.{kernel}"), kernel)
    program[(heads * -(-length // rows),)](
        *found.tensors,
        *tensors,
        *found.sizes,
        **found.flags,
        QUERIES=block.queries,
        KEYS=block.keys,
        num_warps=block.warps,
        num_stages=block.stages,
        **({} if REGISTERS[vendor()] is None else {"maxnreg": REGISTERS[vendor()]}),
    )
