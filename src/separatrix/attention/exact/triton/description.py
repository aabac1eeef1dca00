"""A call of order 3 or higher in the form that the Triton kernels read, made once for all passes over it.

The kernels read contiguous tensors, so others are copied, all by one launch; the time of the copies is linear in the
lengths and thus negligible. The queries are converted to the dtype of the arithmetic and multiplied by the scale and by
log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.attention.call import Call
from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.exact.triton.configurations import (
    BOUNDS,
    ENTRIES_AROUND,
    LARGEST,
    WARPS_AROUND,
    WIDTHS,
    peels,
    rows_around,
    width_of,
)
from separatrix.attention.exact.triton.sequences import SIZES, TABLE, PackedCall, numbers_of_sequences

LOG2_E = 1.4426950408889634
FARTHEST = 1 << 23
"""The largest length or offset for which all element offsets in a head of 128 columns fit into the kernels' 32-bit
numbers; see `farthest_of`."""

MOST_ENTRIES = 256
"""The largest number of integers that one launch of `prepare` writes, as they are arguments of the kernel; orders up to
9 need one launch."""
MOST_STEPS = (1 << 31) - 1
"""Steps of a block of queries over its prefix keys are counted by 32-bit numbers."""


@dataclass(frozen=True)
class Described:
    """A call in the form that the kernels read.

    Attributes:
        tensors: The keys and the values of all prefix sets, which are visited key by key; the keys and the values of
            the inner set, which is visited by blocks; and the masks of the prefix sets and of the inner set.
        sizes: The integers of the kernels' signature.
        flags: The compile-time flags of the kernels.
    """

    tensors: tuple[Any, ...]
    sizes: tuple[Any, ...]
    flags: dict[str, Any]


def inner_of(call: Call) -> int:
    """The index of the key set that is visited by blocks: the set of which a query attends the most keys; of several
    such sets, the last one.
    """
    sizes = call.positions.reaches(call.key_lengths)
    return max(range(len(sizes)), key=lambda m: (sizes[m], m))


def prefixes_of(call: Call, first: int | None = None) -> tuple[int, ...]:
    """The indices of the sets that are visited key by key; the index `first` comes first."""
    inner = inner_of(call)
    found = [m for m in range(len(call.keys)) if m != inner]
    return tuple(sorted(found, key=lambda m: m != first))


def steps_of(call: Call) -> int:
    """The largest number of steps of a block of queries over the prefix keys."""
    lengths, windows = call.key_lengths, call.positions.windows
    # A window is a range of distances, and a block of queries may have more distances than there are keys.
    return math.prod(min(windows[m] or lengths[m], lengths[m] + LARGEST) for m in prefixes_of(call))


def farthest_of(call: Call) -> int:
    """The largest length or offset of a call of this width for which element offsets in a head fit into 32 bits."""
    return FARTHEST * WIDTHS[-1] // max(width_of(call), WIDTHS[-1])


def contiguous(call: Call) -> tuple[Tensor, ...]:
    """The contiguous queries, keys and values of a call, copied once for all passes over it."""
    return _copied(call)[: len(call.tensors)]


def wide_masks(call: Call) -> tuple[Tensor, ...]:
    """The masks of a call as int32, converted once for all passes over it.

    For float32, Triton 3.7 compiles products whose operands depend on a load of 8 bits to TF32 on Blackwell.
    """
    return _copied(call)[len(call.tensors) :]


def _copied(call: Call) -> tuple[Tensor, ...]:
    """The contiguous tensors of a call and its masks as int32; one launch makes all copies that are needed."""
    copied: tuple[Tensor, ...] | None = call.kept.get("copied")
    if copied is None:
        given = (*call.tensors, *(mask.view(torch.uint8).unsqueeze(2) for mask in call.masks))
        dtypes = [call.query.dtype] * len(call.tensors) + [torch.int32] * len(call.masks)
        results = [
            x if x.dtype == dtype and x.is_contiguous() else torch.empty(x.shape, dtype=dtype, device=x.device)
            for x, dtype in zip(given, dtypes, strict=True)
        ]
        pairs = [(x, y) for x, y in zip(given, results, strict=True) if x is not y]
        if pairs:
            sources, copies = zip(*pairs, strict=True)
            blocks = -(-max(x.numel() for x in sources) // ENTRIES_AROUND)
            shapes = zip(*((*x.shape, *x.stride()) for x in sources), strict=True)
            heads, lengths, columns, head_strides, *strides = (tuple(numbers) for numbers in shapes)
            launch_around(
                "copy_sets",
                len(sources) * blocks,
                call.query.device,
                *(sources, copies, heads, _unspecialised(lengths), columns),
                *(_unspecialised(head_strides), *strides, blocks),
                COUNT=len(sources),
                BLOCK=ENTRIES_AROUND,
            )
        count = len(call.tensors)
        copied = call.kept["copied"] = (*results[:count], *(mask.squeeze(2) for mask in results[count:]))
    return copied


def _unspecialised(numbers: Iterable[int]) -> tuple[int, ...]:
    """4 x + 3 for integers x that are passed to a kernel as a tuple; see `prepare`."""
    return tuple(4 * x + 3 for x in numbers)


def described(call: Call, precision: str) -> Described:
    """The call in the form that the kernels read, made once for all passes."""
    description: Described | None = call.kept.get("described")
    if description is None or description.flags["PRECISION"] != precision:
        description = call.kept["described"] = _described(call, precision)
    return description


def _described(call: Call, precision: str) -> Described:
    heads, _, d = call.query.shape
    d_v = call.values[0].shape[2]
    windows, inner, prefixes = call.positions.windows, inner_of(call), prefixes_of(call)
    sets = len(call.keys)
    tensors = contiguous(call)
    given = [tensors[1 : 1 + sets], tensors[1 + sets :]]
    if call.masks:
        given.append(wide_masks(call))
    of_prefixes = [_together([x[m] for m in prefixes]) for x in given]
    of_inner = [x[inner] for x in given]
    # Without masks, the pointers to them are not read but have to point somewhere.
    masks = (of_prefixes[2], of_inner[2]) if call.masks else (table_of(call),) * 2
    lengths = sum(call.key_lengths[m] for m in prefixes), call.key_lengths[inner]
    inner_window = min(windows[inner] or 0, 2 * FARTHEST)
    return Described(
        (*of_prefixes[:2], *of_inner[:2], *masks),
        (len(prefixes), *lengths, call.positions.offset, inner_window, call.shared, heads // mask_heads(call)),
        {
            "CAUSAL": call.positions.is_causal,
            "PREFIX_WINDOW": any(windows[m] is not None for m in prefixes),
            "INNER_WINDOW": windows[inner] is not None,
            "MASKED": bool(call.masks),
            "PEELED": peeled(call, precision) and not _is_mixed(call) and _sees_inner_keys(call),
            "PRECISION": precision,
            "d": d,
            "d_v": d_v,
            "D": padded(d),
            "D_V": padded(d_v),
        },
    )


def mask_heads(call: Call) -> int:
    """The number of heads with separate masks."""
    return call.masks[0].shape[0] if call.masks else call.query.shape[0]


def peeled(call: Call, precision: str) -> bool:
    """Whether blocks without masked scores have a separate loop without comparisons."""
    return peels(bool(call.masks), call.query.dtype, precision)


def _is_mixed(call: Call) -> bool:
    """Whether some prefix sets have a window and others are causal without one.

    Kernels that skip comparisons in whole blocks do not support such a call.
    """
    windows = [call.positions.windows[m] for m in prefixes_of(call)]
    return call.positions.is_causal and None in windows and any(window is not None for window in windows)


def _sees_inner_keys(call: Call) -> bool:
    """Whether each query may attend an inner key by its position.

    Otherwise a block of queries may have no inner keys, and kernels without comparisons would use keys that do not
    exist.
    """
    inner = inner_of(call)
    window = call.positions.windows[inner]
    if window is None:
        return not call.positions.is_causal or min(offsets_of(call)) >= 0
    if isinstance(call, PackedCall):
        lengths = zip(call.offsets, call.lengths(0), call.lengths(1 + inner), strict=True)
    else:
        lengths = zip(offsets_of(call), [call.query.shape[1]], [call.key_lengths[inner]], strict=True)
    return all(offset >= 0 and queries + offset - window < length for offset, queries, length in lengths)


def is_seen(call: Call) -> bool:
    """Whether a query may attend the first inner key by its position, or comes before it; see `_sees_inner_keys`."""
    window = call.positions.windows[inner_of(call)]
    return window is None or max(offsets_of(call)) < window


def offsets_of(call: Call) -> tuple[int, ...]:
    """The offset of a call, or those of its sequences."""
    return call.offsets if isinstance(call, PackedCall) else (call.positions.offset,)


def _together(sets: list[Tensor]) -> Tensor:
    """The concatenated rows of several sets; a single set is not copied."""
    return sets[0] if len(sets) == 1 else torch.cat(sets, 1)


class Numbers(NamedTuple):
    """Integers of a call in the memory of its device.

    Attributes:
        sizes: For each tensor, its rows and columns, where queries that share a head of keys are the rows of one head.
        tables: For each prefix set, the kernels' table in which this set comes first.
        bounds: The bounds that `check_range` increases from 0, followed by the exponents of `largest`.
        sequences: The numbers of packed sequences, on the CPU and on the device; sizes and tables are columns of these.
    """

    sizes: Tensor
    tables: dict[int, Tensor]
    bounds: Tensor
    sequences: tuple[Tensor, Tensor] | None = None


def numbers_of(call: Call) -> Numbers:
    """The numbers of a call, written by one launch for all passes over the call."""
    numbers: Numbers | None = call.kept.get("numbers")
    if numbers is None and isinstance(call, PackedCall):
        numbers = call.kept["numbers"] = _numbers_of_sequences(call)
    if numbers is None:
        heads, width = call.keys[0].shape[0], width_of(call)
        entries = [call.query.shape[0] // heads * call.query.shape[1], call.query.shape[2]]
        entries += [size for x in call.tensors[1:] for size in x.shape[1:]]
        ends = [0, len(entries)]
        for m in prefixes_of(call):
            entries += [0] * (-len(entries) % 4)  # pointers to multiples of 16 bytes
            ends[-1] = len(entries)
            entries += [number for row in _table(call, m) for number in row]
            ends.append(len(entries))
        entries += [0] * (-len(entries) % 4)
        ends[-1] = len(entries)
        zeros = BOUNDS + len(call.tensors) * heads * width
        memory = torch.empty(len(entries) + zeros, dtype=torch.int32, device=call.query.device)
        for start in range(0, len(entries), MOST_ENTRIES):
            part = entries[start : start + MOST_ENTRIES]
            last = start + len(part) == len(entries)
            launch_around(
                "prepare",
                -(-zeros // ENTRIES_AROUND) if last else 1,
                call.query.device,
                *(memory[start:], _unspecialised(part), zeros if last else 0),
                COUNT=len(part),
                BLOCK=ENTRIES_AROUND,
            )
        *parts, bounds = memory.tensor_split(ends[1:])
        numbers = Numbers(parts[0], dict(zip(prefixes_of(call), parts[1:], strict=True)), bounds)
        call.kept["numbers"] = numbers
    return numbers


def _numbers_of_sequences(call: PackedCall) -> Numbers:
    """The numbers of packed sequences, copied from the host: their number is not known when kernels are compiled."""
    inner, (prefix,), width, heads = inner_of(call), prefixes_of(call), width_of(call), call.keys[0].shape[0]
    window = min(call.positions.windows[prefix] or 0, 2 * FARTHEST)
    on_host = numbers_of_sequences(call, inner, window, rows_around(width))
    numbers = on_host.to(call.query.device)
    zeros = BOUNDS + len(call.offsets) * len(call.tensors) * heads * width
    bounds = torch.zeros(zeros, dtype=torch.int32, device=call.query.device)
    return Numbers(numbers[:, SIZES:], {prefix: numbers[:, TABLE:]}, bounds, (on_host, numbers))


def table_of(call: Call, first: int | None = None) -> Tensor:
    """The table of the prefix sets on the device of a call; if the set `first` is one of them, it comes first."""
    tables = numbers_of(call).tables
    return tables[first if first in tables else prefixes_of(call)[0]]


def _table(call: Call, first: int) -> list[tuple[int, int, int]]:
    """For each prefix set, beginning with `first`: its first row in the concatenated sets, its length, its window."""
    starts, so_far = {}, 0
    for m in prefixes_of(call):
        starts[m] = so_far
        so_far += call.key_lengths[m]
    windows = [min(window or 0, 2 * FARTHEST) for window in call.positions.windows]
    return [(starts[m], call.key_lengths[m], windows[m]) for m in prefixes_of(call, first)]


def scales_of(call: Call, up: int = 0) -> Tensor:
    """The factors that the kernels use: for queries, and for the gradients of queries, keys and values.

    Args:
        call: The call.
        up: The power of two that the weights of a backward pass are multiplied by.
    """
    down = 2.0**-up
    factors = (call.scale * LOG2_E, call.scale * down, math.log(2.0) * down, down)
    return _on_device(factors, call.computed_in, call.query.device)


@lru_cache(maxsize=256)
def _on_device(factors: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of factors that is copied to its device once for all calls with the same scale."""
    return torch.tensor(factors, dtype=dtype, device=device)


def launch_around(kernel: str, programs: int, device: torch.device, *arguments: Any, **constants: Any) -> None:
    """Launch one of the kernels that run before or after the main kernels."""
    gpu.launch(program_of(kernel), programs, device, *arguments, **constants, num_warps=WARPS_AROUND, num_stages=1)


def program_of(kernel: str) -> Any:
    """A kernel, imported when it is first launched, because this imports Triton."""
    return getattr(import_module(f"separatrix.attention.exact.triton.programs.{kernel}"), kernel)
