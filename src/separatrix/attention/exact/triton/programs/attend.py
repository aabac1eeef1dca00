"""The forward pass of order 3 and up in Triton: for a block of queries, one prefix after the other against inner keys.

    s_j = <q_i * k_p, k_j>,    out_i = sum_p v_p * (sum_j 2^(s_j) v_j) / sum_p sum_j 2^(s_j)

A prefix p has a key of each set but the inner one, whose rows are multiplied; at order 3 it is one key. The queries are
already multiplied by the scale and by log2(e). The largest score so far is rounded up to an integer before it is
subtracted, so that whenever it grows the sums are scaled by a power of two, which is exact: only additions round a sum.
The weights of one prefix are summed first, and then the sums of all prefixes.

`PACKED` tiles have the rows of all query heads that share a head of keys: position by position, and head by head within
a position. The fewer positions a tile has, the fewer of its scores are outside a window. If all rows of a tile have one
position (`ALONE`), every key is visible to all rows or to none, and all rows share a prefix key.

`SPLIT` programs divide the steps over prefix keys, and write sums that `merge_splits` adds: for few queries against
many keys.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import (
    LENGTHS,
    add_product,
    allowed,
    parts_of_keys,
    power,
    product,
    put_output,
    put_rows,
    reach,
    rows_of,
    shown,
    steps_of,
    times,
    whole_rows,
)


@triton.jit(do_not_specialize=(*LENGTHS, "splits"))
def attend(
    left, prefix_keys, prefix_values, inner_keys, inner_values, prefix_mask, inner_mask, out, lse, queries, table, sets,
    prefixes, inners, offset, inner_window, shared, mask_shared, splits,
    CAUSAL: tl.constexpr, PREFIX_WINDOW: tl.constexpr, INNER_WINDOW: tl.constexpr, MASKED: tl.constexpr,
    PEELED: tl.constexpr, PRECISION: tl.constexpr, d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr,
    D_V: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, PACKED: tl.constexpr, ALONE: tl.constexpr,
    SPLIT: tl.constexpr,
):  # fmt: skip
    """Write the output and the log-sum-exp of one block of queries, or partial sums of them."""
    program, split = tl.program_id(0), 0
    if SPLIT:
        program, split = program // splits, program % splits
    length = queries * shared if PACKED else queries
    blocks = tl.cdiv(length, QUERIES)
    group, begin = program // blocks, program % blocks * QUERIES
    rows = begin + tl.arange(0, QUERIES)
    if PACKED:
        own, masked_as = group, group * shared // mask_shared
        first, last = begin // shared, (tl.minimum(begin + QUERIES, length) - 1) // shared
        # Rows of memory are head by head.
        if ALONE:
            here = first + offset + tl.arange(0, 1)
            live = here == here
            rows = rows % shared * queries + first
        else:
            here, live = rows // shared + offset, rows < length
            rows = rows % shared * queries + rows // shared
    else:
        own, masked_as = group // shared, group // mask_shared
        first, last = begin, tl.minimum(begin + QUERIES, queries) - 1
        live, here = rows < queries, rows + offset
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    total = tl.zeros((QUERIES,), wide)
    sums = tl.zeros((QUERIES, D_V), wide)
    peak = tl.full((QUERIES,), float("-inf"), wide)
    ends_of_parts = parts_of_keys(
        first, last, offset, inner_window, inners, KEYS, CAUSAL or INNER_WINDOW, INNER_WINDOW, PEELED
    )
    given, block = (prefix_mask, table, sets, prefixes), (own, masked_as, first, last, offset, here)
    steps = steps_of(given, block, CAUSAL, PREFIX_WINDOW, 0)
    first_step = 0
    if SPLIT:
        share = tl.cdiv(steps, splits)
        first_step, steps = split * share, tl.minimum((split + 1) * share, steps)
    for step in range(first_step, steps):
        q = rows_of(left, group, rows, length, live, d, D)  # read again in each step: registers are scarce
        row, may = times(q, live, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 0)
        row = row.to(narrow)
        ends = reach(here, may, CAUSAL or INNER_WINDOW)
        row_peak = peak
        row_total = tl.zeros((QUERIES,), wide)
        row_sums = tl.zeros((QUERIES, D_V), wide)
        for part in tl.static_range(3 if PEELED else 1):
            for place in range(ends_of_parts[part], ends_of_parts[part + 1], KEYS):
                keys = place + tl.arange(0, KEYS)
                if part == 1:
                    K = whole_rows(inner_keys, own, keys, inners, d, D)
                    V = whole_rows(inner_values, own, keys, inners, d_v, D_V)
                else:
                    inside_here = shown(inner_mask, masked_as, keys, inners, keys < inners, MASKED)
                    K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
                    V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
                S = product(row, tl.trans(K), wide, PRECISION)
                if part != 1:
                    S = tl.where(allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW), S, float("-inf"))
                higher = tl.maximum(row_peak, tl.ceil(tl.max(S, 1)))
                base = tl.where(higher == float("-inf"), 0.0, higher)
                fade = power(row_peak - base)
                P = tl.exp2(S - base[:, None])
                row_total = row_total * fade + tl.sum(P, 1)
                row_sums = add_product(row_sums * fade[:, None], P.to(narrow), V, PRECISION)
                row_peak = higher
        # Scores of queries that may not attend the prefix, which blocks without comparisons compute, are discarded
        # here.
        row_peak = tl.where(may, row_peak, peak)
        row_total = tl.where(may, row_total, 0.0)
        row_sums = tl.where(may[:, None], row_sums, 0.0)
        fade = power(peak - tl.where(row_peak == float("-inf"), 0.0, row_peak))
        total = total * fade + row_total
        row_sums, _ = times(
            row_sums, live, step, prefix_values, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d_v, D_V, 0
        )
        sums = sums * fade[:, None] + row_sums
        peak = row_peak
    if SPLIT:
        groups = tl.num_programs(0) // (splits * blocks)
        part = split * groups + group
        put_rows(out, part, rows, length, live, sums, d_v, D_V)
        place = lse + part.to(tl.int64) * length + rows
        tl.store(place, peak, mask=live)
        tl.store(place + splits.to(tl.int64) * groups * length, total, mask=live)
    else:
        put_output(out, lse, group, rows, length, live, sums, total, peak, d_v, D_V)
