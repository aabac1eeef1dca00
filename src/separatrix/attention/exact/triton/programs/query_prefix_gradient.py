"""The gradients of queries and of windowed prefix keys and values in one kernel in Triton, of order 3.

    dS = P * (g (v_p * v_j) - delta),    a_ip = sum_j dS k_j,    b_ip = sum_j P v_j,
    dq_i = sum_p k_p * a_ip,    dk_p = sum_i q_i * a_ip,    dv_p = sum_i g_i * b_ip

`query_gradient` and `prefix_gradient` each compute the weights P, dS and the sums a_ip; this kernel computes them once.
It visits the prefix keys of a block of queries by distance, so that in every step each query of a block has another
key. The sums over the queries of a block are partial sums in memory, which belong to one program; `add_partials` adds
up those of all blocks in a fixed order, so that the gradients are deterministic.

In `ALONE` tiles, all rows are query heads at one position that share keys, as in `attend`: they have the same prefix
key in every step, and the sum over the rows is the partial sum of this key.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import (
    LENGTHS,
    add_product,
    allowed,
    exponent_of_head,
    parts_of_keys,
    product,
    put_rows,
    reach,
    rows_of,
    shares_of,
    shown,
    steps_in,
    times_power,
    whole_rows,
)


@triton.jit
def add_rows(partials, program, rows, length, exists, written, terms, d: tl.constexpr, D: tl.constexpr):
    """Add `terms` (rows, D) to the partial sums of a program; rows that are not `written` yet are overwritten."""
    sums = rows_of(partials, program, rows, length, exists & written, d, D)
    put_rows(partials, program, rows, length, exists, sums + terms, d, D)


@triton.jit(do_not_specialize=LENGTHS)
def query_prefix_gradient(
    left, prefix_keys, prefix_values, inner_keys, inner_values, prefix_mask, inner_mask, incoming, lse, delta,
    own_exponents, top_exponents, scales, gradient, key_partials, value_partials, queries, table, sets, prefixes,
    inners, offset, inner_window, shared, mask_shared,
    CAUSAL: tl.constexpr, PREFIX_WINDOW: tl.constexpr, INNER_WINDOW: tl.constexpr, MASKED: tl.constexpr,
    PEELED: tl.constexpr, PRECISION: tl.constexpr, d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr,
    D_V: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, ALONE: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one block of queries, and its partial sums for the prefix keys it attends."""
    length = queries * shared if ALONE else queries
    blocks = tl.cdiv(length, QUERIES)
    group, begin_row = tl.program_id(0) // blocks, tl.program_id(0) % blocks * QUERIES
    rows = begin_row + tl.arange(0, QUERIES)
    if ALONE:
        own, masked_as = group, group * shared // mask_shared
        first = begin_row // shared
        last = first
        here = first + offset + tl.arange(0, 1)
        live = here == here
        rows = rows % shared * queries + first
    else:
        own, masked_as = group // shared, group // mask_shared
        first, last = begin_row, tl.minimum(begin_row + QUERIES, queries) - 1
        live, here = rows < queries, rows + offset
    of_group = group.to(tl.int64) * length + rows
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    of_queries = tl.zeros((QUERIES, D), wide)
    ends_of_parts = parts_of_keys(
        first, last, offset, inner_window, inners, KEYS, CAUSAL or INNER_WINDOW, INNER_WINDOW, PEELED
    )
    window = tl.load(table + 2)
    lowest = tl.maximum(first + offset - window + 1, 0)
    partial_rows = tl.minimum(prefixes, (1 if ALONE else QUERIES) + window - 1)
    begin, steps = steps_in(first, last, offset, window, prefixes, CAUSAL, PREFIX_WINDOW)
    for step in range(steps):
        place = here - begin - step
        exists = live & (place >= 0) & (place < prefixes)
        may = shown(prefix_mask, masked_as, place, prefixes, exists, MASKED)
        # Read anew each time: registers are scarcer than cache.
        q = rows_of(left, group, rows, length, live, d, D)
        g = rows_of(incoming, group, rows, length, live, d_v, D_V)
        row = (q * rows_of(prefix_keys, own, place, prefixes, may, d, D).to(wide)).to(narrow)
        g_row = (g * rows_of(prefix_values, own, place, prefixes, may, d_v, D_V).to(wide)).to(narrow)
        shift = tl.load(lse + of_group, mask=live, other=0.0)
        against = tl.load(delta + of_group, mask=live, other=0.0)
        ends = reach(here, may, CAUSAL or INNER_WINDOW)
        row_keys = tl.zeros((QUERIES, D), wide)
        row_values = tl.zeros((QUERIES, D_V), wide)
        for part in tl.static_range(3 if PEELED else 1):
            for at in range(ends_of_parts[part], ends_of_parts[part + 1], KEYS):
                keys = at + tl.arange(0, KEYS)
                if part == 1:
                    K = whole_rows(inner_keys, own, keys, inners, d, D)
                    V = whole_rows(inner_values, own, keys, inners, d_v, D_V)
                else:
                    inside_here = shown(inner_mask, masked_as, keys, inners, keys < inners, MASKED)
                    K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
                    V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
                S = product(row, tl.trans(K), wide, PRECISION)
                P = tl.exp2(S - shift[:, None])
                if part != 1:
                    P = tl.where(allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW), P, 0.0)
                row_values = add_product(row_values, P.to(narrow), V, PRECISION)
                dP = product(g_row, tl.trans(V), wide, PRECISION)
                dS = (P * (dP - against[:, None])).to(narrow)
                row_keys = add_product(row_keys, dS, K, PRECISION)
        # Queries that may not attend the prefix have scores in blocks without comparisons, which are dropped here.
        row_keys = tl.where(may[:, None], row_keys, 0.0)
        row_values = tl.where(may[:, None], row_values, 0.0)
        of_queries += row_keys * rows_of(prefix_keys, own, place, prefixes, may, d, D).to(wide)
        weight = shares_of(own_exponents, of_group, live, exponent_of_head(top_exponents, own), wide)
        row_keys *= rows_of(left, group, rows, length, live, d, D) * weight[:, None]
        row_values *= rows_of(incoming, group, rows, length, live, d_v, D_V) * weight[:, None]
        if ALONE:
            of_key, of_value = tl.sum(row_keys, 0)[None, :], tl.sum(row_values, 0)[None, :]
            put_rows(key_partials, tl.program_id(0), place - lowest, partial_rows, exists, of_key, d, D)
            put_rows(value_partials, tl.program_id(0), place - lowest, partial_rows, exists, of_value, d_v, D_V)
        else:
            # The previous query visited this prefix key in the previous step.
            written = (step > 0) & (rows > first)
            add_rows(key_partials, tl.program_id(0), place - lowest, partial_rows, exists, written, row_keys, d, D)
            add_rows(
                value_partials, tl.program_id(0), place - lowest, partial_rows, exists, written, row_values, d_v, D_V
            )
            # Wait until other threads can read what this thread has written.
            tl.debug_barrier()
    exponents = tl.load(own_exponents + of_group, mask=live, other=0)
    of_queries = times_power(of_queries * tl.load(scales + 1), exponents[:, None])
    put_rows(gradient, group, rows, length, live, of_queries, d, D)
