"""A call of order 3 as the kernels in Triton take it, and their launches.

The kernels want entries side by side, so tensors that lie otherwise are copied; that is linear in the lengths, and the
work is not. Queries come in the type of the arithmetic, multiplied by the scale and by log2(e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.attention.call import Call
from separatrix.attention.exact.gpu.configurations import configuration, padded, width_of

LOG2_E = 1.4426950408889634
FARTHEST = 1 << 23
"""Lengths and offsets up to here fit the kernels' 32-bit numbers, and so do places in a head of 128 columns."""


@dataclass(frozen=True)
class Described:
    """A call as the kernels take it.

    Attributes:
        prefix: The index of the key set that is visited key by key, the one of which a query attends fewer keys.
        inner: The index of the other, which is visited by blocks.
        tensors: The queries, the prefix keys and values, the inner keys and values, and their masks.
        sizes: The whole numbers of the kernels' signature.
        flags: What the kernels are compiled for.
    """

    prefix: int
    inner: int
    tensors: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    flags: dict[str, object]


def described(call: Call, precision: str) -> Described:
    """The call for the kernels, made once for all passes over it."""
    found: Described | None = call.kept.get("gpu")
    if found is None or found.flags["PRECISION"] != precision:
        found = call.kept["gpu"] = _described(call, precision)
    return found


def prefix_of(call: Call) -> int:
    """The index of the key set that is visited key by key: the one of which a query attends fewer keys."""
    windows = call.positions.windows
    first, second = (
        length if window is None else min(window, length)
        for length, window in zip(call.key_lengths, windows, strict=True)
    )
    return 1 if first > second else 0


def _described(call: Call, precision: str) -> Described:
    heads, queries, d = call.query.shape
    d_v = call.values[0].shape[2]
    windows = call.positions.windows
    prefix = prefix_of(call)
    inner = 1 - prefix
    left = (call.query.to(call.computed_in) * (call.scale * LOG2_E)).contiguous()
    sets = [call.keys[prefix], call.values[prefix], call.keys[inner], call.values[inner]]
    # A pointer that is not read has to point somewhere.
    masks = [call.masks[m].contiguous().view(torch.uint8) if call.masks else call.keys[0] for m in (prefix, inner)]
    mask_shared = heads // call.masks[0].shape[0] if call.masks else 1
    lengths = (call.key_lengths[prefix], call.key_lengths[inner])
    ends = [0 if windows[m] is None else min(windows[m], 2 * FARTHEST) for m in (prefix, inner)]
    offset = call.positions.offset
    return Described(
        prefix,
        inner,
        (left, *(x.contiguous() for x in sets), *masks),
        (queries, *lengths, offset, *ends, call.shared, mask_shared),
        {
            "CAUSAL": call.positions.is_causal,
            "PREFIX_WINDOW": windows[prefix] is not None,
            "INNER_WINDOW": windows[inner] is not None,
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
    from separatrix.attention.exact.gpu.programs.attend import attend

    found = described(call, precision)
    heads, queries, _ = call.query.shape
    out = call.query.new_empty(heads, queries, call.values[0].shape[2])
    lse = call.query.new_empty(heads, queries, dtype=call.computed_in)
    block = configuration("attend", call.query.dtype, width_of(call))
    _launch(attend, heads * -(-queries // block.queries), found, (out, lse), block)
    return out, lse * math.log(2.0)


def gradients(call: Call, precision: str, rows: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of queries, keys and values in the type of the arithmetic, of queries over the scale.

    Args:
        call: The call.
        precision: How products of float32 are computed.
        rows: For each query the incoming gradient, the log-sum-exp to base 2, delta and its share of the head's power.
    """
    from separatrix.attention.exact.gpu.programs.inner_gradient import inner_gradient
    from separatrix.attention.exact.gpu.programs.prefix_gradient import prefix_gradient
    from separatrix.attention.exact.gpu.programs.query_gradient import query_gradient

    found = described(call, precision)
    wide = call.computed_in
    query = torch.empty_like(call.query, dtype=wide, memory_format=torch.contiguous_format)
    keys, values = (
        [torch.empty_like(x, dtype=wide, memory_format=torch.contiguous_format) for x in sets]
        for sets in (call.keys, call.values)
    )
    own = call.keys[0].shape[0]
    block = _block("query_gradient", call)
    _launch(
        query_gradient,
        call.query.shape[0] * -(-call.query.shape[1] // block.queries),
        found,
        (*rows, query, query),
        block,
    )
    m = found.inner
    block = _block("inner_gradient", call)
    _launch(inner_gradient, own * -(-call.key_lengths[m] // block.keys), found, (*rows, keys[m], values[m]), block)
    m = found.prefix
    block = _block("prefix_gradient", call)
    _launch(prefix_gradient, own * call.key_lengths[m], found, (*rows, keys[m], values[m]), block)
    return query, keys, values


def _block(kernel, call):
    return configuration(kernel, call.query.dtype, width_of(call))


def _launch(kernel, programs, found, tensors, block):
    kernel[(programs,)](
        *found.tensors,
        *tensors,
        *found.sizes,
        **found.flags,
        QUERIES=block.queries,
        KEYS=block.keys,
        num_warps=block.warps,
        num_stages=block.stages,
    )
