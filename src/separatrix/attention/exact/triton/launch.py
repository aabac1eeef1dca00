"""The launches of the Triton kernels in a forward and a backward pass, and the shapes that choose among them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.call import Call, Gradients
from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.exact.triton.configurations import (
    FUSED,
    FUSED_BLOCKS,
    WARPS_AROUND,
    Configuration,
    configuration,
    flags_of,
    kernels_of,
    rows_around,
    width_of,
)
from separatrix.attention.exact.triton.description import (
    described,
    farthest_of,
    inner_of,
    is_seen,
    launch_around,
    mask_heads,
    numbers_of,
    offsets_of,
    prefixes_of,
    program_of,
    table_of,
)
from separatrix.attention.exact.triton.sequences import PackedCall, Programs, place_partials
from separatrix.attention.exact.triton.sequences import launch as launch_sequences

ENOUGH_PROGRAMS = 128
"""A forward pass with fewer programs, about the number that GPUs run at once, splits the steps of each program."""
LEAST_SCORES = 1 << 11
"""The smallest number of scores of a query in a split: to compute them takes about as long as another launch."""


def forward(call: Call, precision: str, left: Tensor) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the call's dtype, and the log-sum-exp (H, L_q) in the dtype of its arithmetic."""
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

    This layout requires that these heads share masks, too, and that row indices fit into 32 bits.
    """
    own_masks = bool(call.masks) and mask_heads(call) != call.keys[0].shape[0]
    return call.shared > 1 and not own_masks and call.query.shape[1] * call.shared <= farthest_of(call)


def splits_of(call: Call, programs: int) -> int:
    """The number of programs that share the steps of a query block, in a forward pass of `programs` blocks.

    The number depends only on the shapes, so that results are reproducible. Packed sequences have enough programs
    together.
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
    top = torch.zeros(len(offsets_of(call)), heads, dtype=torch.int32, device=out.device)
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
    """The gradients of a call in its dtype.

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
    """Whether one kernel computes the gradients of the queries and, as partial sums, of the prefix set.

    This requires an architecture for which the kernel was compiled, order 3, and a window on the prefix set; the longer
    the window, the more memory the partial sums take.
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
    """Write the gradients of the queries and of the prefix set; the latter are sums of partial sums of blocks."""
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


def run_around(kernel: str, call: Call, programs: Programs, *arguments: Any, **constants: Any) -> None:
    """Run, on each packed sequence, a kernel that runs before or after the main kernels."""
    _run(kernel, call, programs, *arguments, **constants, num_warps=WARPS_AROUND, num_stages=1)


def _run(kernel: str, call: Call, programs: Programs, *arguments: Any, **options: Any) -> None:
    """Launch a kernel; if the call has packed sequences, on each of them."""
    if isinstance(call, PackedCall):
        sequences, kernels = numbers_of(call).sequences, (program_of("of_sequence"), program_of(kernel))
        assert sequences is not None
        launch_sequences(call, inner_of(call), sequences, kernels, programs, arguments, options)
    else:
        gpu.launch(program_of(kernel), programs.of(programs.rows), call.query.device, *arguments, **options)


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
        own_flags["PEELED"] = description.flags["PEELED"] and is_seen(call)
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
    """The block of a kernel for a call and the dtype of its tensors."""
    packed, of = kernel == "attend" and is_packed(call), gpu.blocks_of(call.query.device)
    return configuration(kernel, dtype, width_of(call), of=of, precision=precision, order=call.order, packed=packed)
