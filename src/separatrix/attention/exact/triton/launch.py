"""A call of order 3 or higher in the form that the Triton kernels read, and the kernel launches.

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

from separatrix.attention.call import Call, Gradients
from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.exact.triton.configurations import (
    BOUNDS,
    ENTRIES_AROUND,
    FUSED,
    FUSED_BLOCKS,
    LARGEST,
    WARPS_AROUND,
    WIDTHS,
    Configuration,
    configuration,
    flags_of,
    kernels_of,
    peels,
    rows_around,
    width_of,
)
from separatrix.attention.exact.triton.sequences import (
    SIZES,
    TABLE,
    PackedCall,
    Programs,
    numbers_of_sequences,
    place_partials,
)
from separatrix.attention.exact.triton.sequences import launch as launch_sequences

LOG2_E = 1.4426950408889634
FARTHEST = 1 << 23
"""Lengths and offsets up to here fit the kernels' 32-bit numbers, and so do places in a head of 128 columns;
see `farthest_of`."""

MOST_ENTRIES = 256
"""The largest number of integers that one launch of `prepare` writes, as they are arguments of the kernel; orders up to
9 need one launch."""
MOST_STEPS = (1 << 31) - 1
"""Steps of a block of queries over its prefix keys are counted by 32-bit numbers."""
ENOUGH_PROGRAMS = 128
"""A forward pass with fewer programs, about the number that GPUs run at once, splits the steps of each program."""
LEAST_SCORES = 1 << 11
"""The smallest number of scores of a query in a split, which take about as long as another launch."""


@dataclass(frozen=True)
class Described:
    """A call in the form that the kernels read.

    Attributes:
        tensors: The keys of all prefix sets, which are visited key by key, and their values, keys and values of the
            inner set, which is visited by blocks, and the masks of both.
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
    """The indices of the sets that are visited key by key, that of `first` before the others."""
    inner = inner_of(call)
    found = [m for m in range(len(call.keys)) if m != inner]
    return tuple(sorted(found, key=lambda m: m != first))


def steps_of(call: Call) -> int:
    """The largest number of steps of a block of queries over the prefix keys."""
    lengths, windows = call.key_lengths, call.positions.windows
    # A window is a range of distances, and a block of queries may have more distances than there are keys.
    return math.prod(min(windows[m] or lengths[m], lengths[m] + LARGEST) for m in prefixes_of(call))


def farthest_of(call: Call) -> int:
    """The largest length or offset of a call of this width whose places in a head fit into 32 bits."""
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
            heads, lengths, *others = (tuple(numbers) for numbers in shapes)
            launch_around(
                "copy_sets",
                len(sources) * blocks,
                call.query.device,
                *(sources, copies, heads, _unspecialised(lengths), *others, blocks),
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
    """The number of heads that have a mask of their own."""
    return call.masks[0].shape[0] if call.masks else call.query.shape[0]


def peeled(call: Call, precision: str) -> bool:
    """Whether blocks without masked scores have loops of their own, without comparisons."""
    return peels(bool(call.masks), call.query.dtype, precision)


def _is_mixed(call: Call) -> bool:
    """Whether some prefix sets have a window and others are causal without one.

    Kernels without comparisons in whole blocks do not support these.
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
        return not call.positions.is_causal or min(_offsets(call)) >= 0
    if isinstance(call, PackedCall):
        lengths = zip(call.offsets, call.lengths(0), call.lengths(1 + inner), strict=True)
    else:
        lengths = zip(_offsets(call), [call.query.shape[1]], [call.key_lengths[inner]], strict=True)
    return all(offset >= 0 and queries + offset - window < length for offset, queries, length in lengths)


def _is_seen(call: Call) -> bool:
    """Whether a query may attend the first inner key by its position, or comes before it; see `_sees_inner_keys`."""
    window = call.positions.windows[inner_of(call)]
    return window is None or max(_offsets(call)) < window


def _offsets(call: Call) -> tuple[int, ...]:
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
        sequences: The numbers of packed sequences, of which sizes and tables are columns, on the CPU and on the device.
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
    """The table of the prefix sets on the device of a call, the set `first` before the others if it is one of them."""
    tables = numbers_of(call).tables
    return tables[first if first in tables else prefixes_of(call)[0]]


def _table(call: Call, first: int) -> list[tuple[int, int, int]]:
    """For each prefix set, `first` before the others, its first row among those of all, its length and its window."""
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


def forward(call: Call, precision: str, left: Tensor) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the type of the call, and the log-sum-exp (H, L_q) in that of its arithmetic."""
    heads, queries, _ = call.query.shape
    d_v, wide = call.values[0].shape[2], call.computed_in
    out = call.query.new_empty(heads, queries, d_v)
    lse = call.query.new_empty(heads, queries, dtype=wide)
    packed, block = is_packed(call), block_of("attend", call, call.query.dtype, precision)
    groups, length = (heads // call.shared, queries * call.shared) if packed else (heads, queries)
    splits = splits_of(call, groups * -(-length // block.queries))
    results = out, lse
    if splits > 1:
        sums = out.new_empty(splits, heads, queries, d_v, dtype=wide)
        results = sums, out.new_empty(2, splits, heads, queries, dtype=wide)
    flags = {"PACKED": packed, "ALONE": packed and call.shared % block.queries == 0, "SPLIT": splits > 1}
    programs = Programs(groups * splits, "queries", queries, length // queries, block.queries)
    _launch("attend", call, precision, programs, left, results, splits=splits, flags=flags)
    if splits > 1:
        count = rows_around(padded(d_v))
        launch_around(
            "merge_splits",
            heads * -(-queries // count),
            call.query.device,
            *(*results, out, lse, heads, queries, splits),
            d_v=d_v,
            D_V=padded(d_v),
            ROWS=count,
        )
    return out, lse


def is_packed(call: Call) -> bool:
    """Whether tiles of the forward pass have the rows of all query heads that share a head of keys.

    That requires that these heads share masks, too, and that row indices fit into 32 bits.
    """
    own_masks = bool(call.masks) and mask_heads(call) != call.keys[0].shape[0]
    return call.shared > 1 and not own_masks and call.query.shape[1] * call.shared <= farthest_of(call)


def splits_of(call: Call, programs: int) -> int:
    """The number of programs among which a forward pass of `programs` blocks splits the steps of a query block.

    It depends only on the shapes, so that results are reproducible. Packed sequences have enough programs together.
    """
    if isinstance(call, PackedCall):
        return 1
    reaches = call.positions.reaches(call.key_lengths)
    inner = inner_of(call)
    steps = math.prod(reach for m, reach in enumerate(reaches) if m != inner)
    return max(1, min(ENOUGH_PROGRAMS // programs, steps, steps * reaches[inner] // LEAST_SCORES))


def incoming_rows(
    call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor, up: int
) -> tuple[Tensor, ...]:
    """The inputs of the backward kernels for each query, and the exponents of the heads; see `programs`."""
    heads, wide = call.keys[0].shape[0], call.computed_in
    count, d_v = call.shared * call.query.shape[1], out.shape[2]
    near = torch.empty_like(out, dtype=wide, memory_format=torch.contiguous_format)
    shift, delta = (torch.empty_like(lse, memory_format=torch.contiguous_format) for _ in range(2))
    own = torch.empty_like(shift, dtype=torch.int32)
    top = torch.zeros(len(_offsets(call)), heads, dtype=torch.int32, device=out.device)
    block = rows_around(padded(d_v))
    given = (grad_out, grad_lse, out, lse)
    run_around(
        "incoming_rows",
        call,
        Programs(heads, "count", count, 1, block),
        *(x.contiguous() for x in given),
        *(near, shift, delta, own, top, count, up),
        d_v=d_v,
        D_V=padded(d_v),
        ROWS=block,
    )
    return near, shift, delta, own, top


def gradients(call: Call, precision: str, left: Tensor, rows: tuple[Tensor, ...]) -> Gradients:
    """The gradients of a call in its type.

    Args:
        call: The call.
        precision: How products of float32 are computed, "ieee" or "tf32".
        left: The queries times the scale and log2(e).
        rows: The result of `incoming_rows`, and the `scales_of` the call.
    """

    def empty(x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    query, keys, values = empty(call.query), [empty(x) for x in call.keys], [empty(x) for x in call.values]
    inner = inner_of(call)
    heads, lengths = call.keys[0].shape[0], call.key_lengths
    fused = is_fused(call, precision)
    if fused:
        _fused_gradients(call, precision, left, rows, query, keys[1 - inner], values[1 - inner])
    else:
        block = block_of("query_gradient", call, call.query.dtype, precision)
        programs = Programs(call.query.shape[0], "queries", call.query.shape[1], 1, block.queries)
        _launch("query_gradient", call, precision, programs, left, (*rows, query, query))
    for m in range(len(keys)):
        if m == inner:
            block = block_of("inner_gradient", call, call.query.dtype, precision)
            programs = Programs(heads, "inners", lengths[m], 1, block.keys)
            _launch("inner_gradient", call, precision, programs, left, (*rows, keys[m], values[m]))
        elif not fused:
            programs = Programs(heads, "prefixes", lengths[m])
            _launch("prefix_gradient", call, precision, programs, left, (*rows, keys[m], values[m]), m)
    return query, keys, values


def is_fused(call: Call, precision: str) -> bool:
    """Whether one kernel computes the gradients of queries and of the prefix set, which are partial sums at first.

    That needs an architecture that the kernel was compiled for, order 3, and a window on the prefix set; the longer the
    window, the more memory the partial sums take.
    """
    window = call.positions.windows[prefixes_of(call)[0]]
    if FUSED not in kernels_of(gpu.blocks_of(call.query.device)) or len(call.keys) > 2 or window is None:
        return False
    return window <= FUSED_BLOCKS * block_of(FUSED, call, call.query.dtype, precision).queries


def _fused_gradients(
    call: Call,
    precision: str,
    left: Tensor,
    rows: tuple[Tensor, ...],
    query_gradient: Tensor,
    key_gradient: Tensor,
    value_gradient: Tensor,
) -> None:
    """Write the gradients of the queries and of the prefix set; those of the prefix set are sums of one partial sum for
    each block."""
    prefix = prefixes_of(call)[0]
    heads, queries, d = call.query.shape
    d_v, prefixes, window = value_gradient.shape[2], call.key_lengths[prefix], call.positions.windows[prefix] or 0
    block = block_of(FUSED, call, call.query.dtype, precision).queries
    alone = is_packed(call) and call.shared % block == 0
    shared, positions = (call.shared, 1) if alone else (1, block)
    programs = Programs(heads // shared, "queries", queries, shared, block)
    if sequences := numbers_of(call).sequences:
        partials = place_partials(sequences, programs, positions + window - 1)
    else:
        partials = programs.of(queries) * min(prefixes, positions + window - 1)
    of_keys, of_values = (call.query.new_empty(partials, columns, dtype=call.computed_in) for columns in (d, d_v))
    tensors = (*rows, query_gradient, of_keys, of_values)
    _launch(FUSED, call, precision, programs, left, tensors, flags={"ALONE": alone})
    count = rows_around(padded(max(d, d_v)))
    run_around(
        "add_partials",
        call,
        Programs(key_gradient.shape[0], "prefixes", prefixes, 1, count),
        *(of_keys, of_values, *rows[4:], key_gradient, value_gradient),
        *(queries, prefixes, call.positions.offset, window, call.shared),
        d=d,
        d_v=d_v,
        D=padded(d),
        D_V=padded(d_v),
        QUERIES=positions,
        HEADS=block if alone else 1,
        ROWS=count,
    )


def launch_around(kernel: str, programs: int, device: torch.device, *arguments: Any, **constants: Any) -> None:
    """Launch one of the kernels that run before or after the others."""
    gpu.launch(_program(kernel), programs, device, *arguments, **constants, num_warps=WARPS_AROUND, num_stages=1)


def run_around(kernel: str, call: Call, programs: Programs, *arguments: Any, **constants: Any) -> None:
    """Run, on each packed sequence, a kernel that runs before or after the main kernels."""
    _run(kernel, call, programs, *arguments, **constants, num_warps=WARPS_AROUND, num_stages=1)


def _run(kernel: str, call: Call, programs: Programs, *arguments: Any, **options: Any) -> None:
    """Launch a kernel, on each of packed sequences if the call has these."""
    if isinstance(call, PackedCall):
        sequences, kernels = numbers_of(call).sequences, (_program("of_sequence"), _program(kernel))
        assert sequences is not None
        launch_sequences(call, inner_of(call), sequences, kernels, programs, arguments, options)
    else:
        gpu.launch(_program(kernel), programs.of(programs.rows), call.query.device, *arguments, **options)


def _launch(
    kernel: str,
    call: Call,
    precision: str,
    programs: Programs,
    left: Tensor,
    tensors: tuple[Tensor, ...],
    first: int | None = None,
    *,
    splits: int | None = None,
    flags: dict[str, bool] | None = None,
) -> None:
    """Launch a kernel of `KERNELS`.

    Args:
        kernel: The kernel.
        call: The call.
        precision: How products of float32 are computed.
        programs: The programs.
        left: The queries times the scale and log2(e).
        tensors: What the kernel reads and writes in addition to the tensors of the call.
        first: The prefix set that comes first.
        splits: How many programs share a block, for kernels that have such an argument.
        flags: Compile-time flags of this kernel.
    """
    description, block = described(call, precision), block_of(kernel, call, call.query.dtype, precision)
    own_flags = dict(flags or {})
    if kernel == "inner_gradient":
        own_flags["PEELED"] = description.flags["PEELED"] and _is_seen(call)
    _run(
        kernel,
        call,
        programs,
        left,
        *description.tensors,
        *tensors,
        call.query.shape[1],
        table_of(call, first),
        *description.sizes,
        *(() if splits is None else (splits,)),
        **{**description.flags, **own_flags},
        **flags_of(kernel, call.query.dtype, gpu.blocks_of(call.query.device)),
        QUERIES=block.queries,
        KEYS=block.keys,
        num_warps=block.warps,
        num_stages=block.stages,
    )


def block_of(kernel: str, call: Call, dtype: torch.dtype, precision: str = "ieee") -> Configuration:
    """The block that a kernel has for a call whose tensors are of a type."""
    packed, of = kernel == "attend" and is_packed(call), gpu.blocks_of(call.query.device)
    return configuration(kernel, dtype, width_of(call), of=of, precision=precision, order=call.order, packed=packed)


def _program(kernel: str) -> Any:
    """A kernel, imported when it is first launched, because this imports Triton."""
    return getattr(import_module(f"separatrix.attention.exact.triton.programs.{kernel}"), kernel)
