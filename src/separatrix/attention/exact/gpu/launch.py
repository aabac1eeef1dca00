"""A call of order 3 and up as the kernels in Triton take it, and their launches.

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
        order: The indices of the prefix sets, which are visited key by key, and last that of the inner set, which is
            visited by blocks.
        tensors: The queries, keys of each prefix set, their values, the inner keys and values, and their masks.
        sizes: The whole numbers of the kernels' signature.
        flags: What the kernels are compiled for.
    """

    order: tuple[int, ...]
    tensors: tuple[Any, ...]
    sizes: tuple[Any, ...]
    flags: dict[str, Any]


def inner_of(call: Call) -> int:
    """The index of the key set that is visited by blocks: the one of which a query attends most, the last of these."""
    sizes = [
        length if window is None else min(window, length)
        for length, window in zip(call.key_lengths, call.positions.windows, strict=True)
    ]
    return max(range(len(sizes)), key=lambda m: (sizes[m], m))


def prefixes_of(call: Call, first: int | None = None) -> tuple[int, ...]:
    """The indices of the sets that are visited key by key, that of `first` before the others."""
    inner = inner_of(call)
    found = [m for m in range(len(call.keys)) if m != inner]
    return tuple(sorted(found, key=lambda m: m != first))


def described(call: Call, precision: str, first: int | None = None) -> Described:
    """The call for the kernels, made once for all passes over it; the prefix set `first` comes first."""
    prefixes = prefixes_of(call, first)
    found: Described | None = call.kept.get(f"gpu {prefixes}")
    if found is None or found.flags["PRECISION"] != precision:
        found = call.kept[f"gpu {prefixes}"] = _described(call, precision, prefixes)
    return found


def _described(call: Call, precision: str, prefixes: tuple[int, ...]) -> Described:
    heads, queries, d = call.query.shape
    d_v = call.values[0].shape[2]
    windows, inner = call.positions.windows, inner_of(call)
    order = (*prefixes, inner)
    left = (call.query.to(call.computed_in) * (call.scale * LOG2_E)).contiguous()
    keys, values = ([sets[m].contiguous() for m in order] for sets in (call.keys, call.values))
    # A pointer that is not read has to point somewhere.
    masks = [call.masks[m].contiguous().view(torch.uint8) if call.masks else call.keys[0] for m in order]
    mask_shared = heads // call.masks[0].shape[0] if call.masks else 1
    ends = [min(windows[m] or 0, 2 * FARTHEST) for m in order]  # 0 stands for no window, and is not looked at
    lengths = [call.key_lengths[m] for m in order]

    def split(given: list[Any]) -> tuple[Any, Any]:
        return tuple(given[:-1]), given[-1]

    (of_keys, inner_keys), (of_values, inner_values) = split(keys), split(values)
    return Described(
        order,
        (left, of_keys, of_values, inner_keys, inner_values, *split(masks)),
        (queries, *split(lengths), call.positions.offset, *split(ends), call.shared, mask_shared),
        {
            "CAUSAL": call.positions.is_causal,
            "PREFIX_WINDOW": tuple(windows[m] is not None for m in prefixes),
            "INNER_WINDOW": windows[inner] is not None,
            "MASKED": bool(call.masks),
            "PRECISION": precision,
            "PREFIXES": len(prefixes),
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
    inner = inner_of(call)
    heads, lengths = call.keys[0].shape[0], call.key_lengths
    _launch("query_gradient", call, precision, call.query.shape[0], call.query.shape[1], (*rows, query, query))
    for m in range(len(keys)):
        kernel = "inner_gradient" if m == inner else "prefix_gradient"
        _launch(kernel, call, precision, heads, lengths[m], (*rows, keys[m], values[m]), m)
    return query, keys, values


def _launch(
    kernel: str,
    call: Call,
    precision: str,
    heads: int,
    length: int,
    tensors: tuple[Tensor, ...],
    first: int | None = None,
) -> None:
    """Run a kernel over all heads and blocks of what it computes, `length` rows of each head."""
    found = described(call, precision, first)
    block = configuration(kernel, call.query.dtype, width_of(call), precision=precision, order=call.order)
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
