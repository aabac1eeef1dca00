"""The forward pass of order 3 and up in Triton: for a block of queries, one prefix after the other against inner keys.

    s_j = <q_i * k_p, k_j>,    out_i = sum_p v_p * (sum_j 2^(s_j) v_j) / sum_p sum_j 2^(s_j)

A prefix p has a key of each set but the inner one, whose rows are multiplied; at order 3 it is one key. The queries
come multiplied by the scale and by log2(e). The largest score so far is rounded up to a whole number before
it is subtracted, so that whenever it grows the sums are scaled by a power of two, which is exact: nothing but additions
rounds a sum. Weights of one prefix are summed first, then those of all.
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
    put_rows,
    reach,
    rows_of,
    shown,
    steps_of,
    times,
)


@triton.jit(do_not_specialize=LENGTHS)
def attend(
    left,
    prefix_keys,
    prefix_values,
    inner_keys,
    inner_values,
    prefix_mask,
    inner_mask,
    out,
    lse,
    queries,
    table,
    sets,
    prefixes,
    inners,
    offset,
    inner_window,
    shared,
    mask_shared,
    CAUSAL: tl.constexpr,
    PREFIX_WINDOW: tl.constexpr,
    INNER_WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
    PEELED: tl.constexpr,
    PRECISION: tl.constexpr,
    d: tl.constexpr,
    d_v: tl.constexpr,
    D: tl.constexpr,
    D_V: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Write the output and the log-sum-exp of one block of queries of one head."""
    blocks = tl.cdiv(queries, QUERIES)
    head, first = tl.program_id(0) // blocks, tl.program_id(0) % blocks * QUERIES
    own, masked_as = head // shared, head // mask_shared
    rows = first + tl.arange(0, QUERIES)
    last = tl.minimum(first + QUERIES, queries) - 1
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
    for step in range(steps):
        q = rows_of(left, head, rows, queries, live, d, D)  # read anew each time: registers are scarcer than cache
        row, may = times(q, live, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 0)
        row = row.to(narrow)
        ends = reach(here, may, CAUSAL or INNER_WINDOW)
        row_peak = peak
        row_total = tl.zeros((QUERIES,), wide)
        row_sums = tl.zeros((QUERIES, D_V), wide)
        for part in tl.static_range(3 if PEELED else 1):
            for place in range(ends_of_parts[part], ends_of_parts[part + 1], KEYS):
                keys = place + tl.arange(0, KEYS)
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
        # Queries that may not attend the prefix have scores in blocks without comparisons, which are dropped here.
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
    empty = total == 0
    total = tl.where(empty, 1.0, total)
    if wide == tl.float64:
        found = sums / total[:, None]
    else:
        found = tl.div_rn(sums, tl.broadcast_to(total[:, None], (QUERIES, D_V)))
    put_rows(out, head, rows, queries, live, found, d_v, D_V)
    log = tl.where(empty, float("-inf"), (peak + tl.log2(total)) * 0.6931471805599453)
    tl.store(lse + head.to(tl.int64) * queries + rows, log, mask=live)
