"""A call of order 3 and up as the kernels in Triton take it, and their launches.

The kernels want entries side by side, so tensors that lie otherwise are copied; that is linear in the lengths, and the
work is not. Queries come in the type of the arithmetic, multiplied by the scale and by log2(e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.call import Call, Gradients
from separatrix.attention.dispatch.gpu import REGISTERS, padded, vendor
from separatrix.attention.exact.gpu.configurations import LARGEST, configuration, width_of

LOG2_E = 1.4426950408889634
FARTHEST = 1 << 23
"""Lengths and offsets up to here fit the kernels' 32-bit numbers, and so do places in a head of 128 columns."""

MOST_STEPS = (1 << 31) - 1
"""Steps of a block of queries over its prefix keys are counted by 32-bit numbers."""


@dataclass(frozen=True)
class Described:
    """A call as the kernels take it.

    Attributes:
        tensors: The queries, keys of all prefix sets, which are visited key by key, and their values, keys and values
            of the inner set, which is visited by blocks, and the masks of both.
        sizes: The whole numbers of the kernels' signature.
        flags: What the kernels are compiled for.
    """

    tensors: tuple[Any, ...]
    sizes: tuple[Any, ...]
    flags: dict[str, Any]


def inner_of(call: Call) -> int:
    """The index of the key set that is visited by blocks: the one of which a query attends most, the last of these."""
    sizes = call.positions.reaches(call.key_lengths)
    return max(range(len(sizes)), key=lambda m: (sizes[m], m))


def prefixes_of(call: Call, first: int | None = None) -> tuple[int, ...]:
    """The indices of the sets that are visited key by key, that of `first` before the others."""
    inner = inner_of(call)
    found = [m for m in range(len(call.keys)) if m != inner]
    return tuple(sorted(found, key=lambda m: m != first))


def steps_of(call: Call) -> int:
    """At most so many steps does a block of queries make over the prefix keys."""
    lengths, windows = call.key_lengths, call.positions.windows
    # A window goes by distances, of which the queries of a block may have more than there are keys.
    return math.prod(min(windows[m] or lengths[m], lengths[m] + LARGEST) for m in prefixes_of(call))


def described(call: Call, precision: str) -> Described:
    """The call for the kernels, made once for all passes over it."""
    found: Described | None = call.kept.get("gpu")
    if found is None or found.flags["PRECISION"] != precision:
        found = call.kept["gpu"] = _described(call, precision)
    return found


def _described(call: Call, precision: str) -> Described:
    heads, _, d = call.query.shape
    d_v = call.values[0].shape[2]
    windows, inner, prefixes = call.positions.windows, inner_of(call), prefixes_of(call)
    left = (call.query.to(call.computed_in) * (call.scale * LOG2_E)).contiguous()
    given = [call.keys, call.values]
    if call.masks:
        given.append(tuple(mask.view(torch.uint8) for mask in call.masks))
    of_prefixes = [_together([sets[m] for m in prefixes]) for sets in given]
    of_inner = [sets[inner].contiguous() for sets in given]
    # Without masks, the pointers to them are not read but have to point somewhere.
    masks = (of_prefixes[2], of_inner[2]) if call.masks else (left, left)
    mask_shared = heads // call.masks[0].shape[0] if call.masks else 1
    lengths = sum(call.key_lengths[m] for m in prefixes), call.key_lengths[inner]
    inner_window = min(windows[inner] or 0, 2 * FARTHEST)
    return Described(
        (left, *of_prefixes[:2], *of_inner[:2], *masks),
        (len(prefixes), *lengths, call.positions.offset, inner_window, call.shared, mask_shared),
        {
            "CAUSAL": call.positions.is_causal,
            "PREFIX_WINDOW": any(windows[m] is not None for m in prefixes),
            "INNER_WINDOW": windows[inner] is not None,
            "MASKED": bool(call.masks),
            "PRECISION": precision,
            "d": d,
            "d_v": d_v,
            "D": padded(d),
            "D_V": padded(d_v),
        },
    )


def _together(sets: list[Tensor]) -> Tensor:
    """The rows of several sets one after the other; one set is not copied if its entries lie side by side."""
    return sets[0].contiguous() if len(sets) == 1 else torch.cat(sets, 1)


def table_of(call: Call, first: int | None = None) -> Tensor:
    """For each prefix set, `first` before the others, its first row among those of all, its length and its window."""
    starts, so_far = {}, 0
    for m in prefixes_of(call):
        starts[m] = so_far
        so_far += call.key_lengths[m]
    windows = [min(window or 0, 2 * FARTHEST) for window in call.positions.windows]
    rows = tuple((starts[m], call.key_lengths[m], windows[m]) for m in prefixes_of(call, first))
    return _table(rows, call.query.device)


@lru_cache(maxsize=256)
def _table(rows: tuple[tuple[int, int, int], ...], device: torch.device) -> Tensor:
    """A table on a device, to which it is copied once for all calls of the same shape."""
    return torch.tensor(rows, dtype=torch.int32, device=device)


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
    found = described(call, precision)
    block = configuration(kernel, call.query.dtype, width_of(call), precision=precision, order=call.order)
    rows = {"inner_gradient": block.keys, "prefix_gradient": 1}.get(kernel, block.queries)
    # Imported when it is first launched, because this imports Triton.
    program = getattr(import_module(f"separatrix.attention.exact.gpu.programs.{kernel}"), kernel)
    program[(heads * -(-length // rows),)](
        *found.tensors,
        *tensors,
        call.query.shape[1],
        table_of(call, first),
        *found.sizes,
        **found.flags,
        QUERIES=block.queries,
        KEYS=block.keys,
        num_warps=block.warps,
        num_stages=block.stages,
        **({} if REGISTERS[vendor()] is None else {"maxnreg": REGISTERS[vendor()]}),
    )
