"""The gradients of inner keys and values in Triton, of order 3 and higher: each program visits one block of inner keys
and all queries that attend it.

    dv_j = sum_i sum_p P g_i * v_p,    dk_j = sum_i sum_p dS q_i * k_p

A block belongs to one program, which adds up the heads of queries that share it, in a fixed order: no two programs
write to the same place, and the bits do not depend on how programs are scheduled.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import (
    LENGTHS,
    add_product,
    allowed,
    computed_once,
    exponent_of_head,
    parts,
    parts_of_queries,
    product,
    put_rows,
    reach,
    rows_of,
    shares_of,
    shown,
    steps_of,
    times,
    times_power,
    times_within,
    whole_rows,
    within_prefixes,
)


@triton.jit(do_not_specialize=LENGTHS)
def inner_gradient(
    left, prefix_keys, prefix_values, inner_keys, inner_values, prefix_mask, inner_mask, incoming, lse, delta,
    own_exponents, top_exponents, scales, key_gradient, value_gradient, queries, table, sets, prefixes, inners, offset,
    inner_window, shared, mask_shared,
    CAUSAL: tl.constexpr, PREFIX_WINDOW: tl.constexpr, INNER_WINDOW: tl.constexpr, MASKED: tl.constexpr,
    PEELED: tl.constexpr, PRECISION: tl.constexpr, d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr,
    D_V: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one block of inner keys and values."""
    blocks = tl.cdiv(inners, KEYS)
    own, place = tl.program_id(0) // blocks, tl.program_id(0) % blocks * KEYS
    keys = place + tl.arange(0, KEYS)
    exists = keys < inners
    K = rows_of(inner_keys, own, keys, inners, exists, d, D)
    V = rows_of(inner_values, own, keys, inners, exists, d_v, D_V)
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    of_keys = tl.zeros((KEYS, D), wide)
    of_values = tl.zeros((KEYS, D_V), wide)
    last_key = tl.minimum(place + KEYS, inners) - 1
    ends_of_parts = parts_of_queries(
        place, last_key, offset, inner_window, queries, KEYS, QUERIES, CAUSAL, INNER_WINDOW, PEELED
    )
    given = (prefix_mask, table, sets, prefixes)
    # Blocks in the middle part, whose queries are within all prefix sets, need no comparisons.
    WITHIN: tl.constexpr = PEELED and (PREFIX_WINDOW or not CAUSAL)
    if WITHIN:
        low, high = within_prefixes(given, queries, offset, PREFIX_WINDOW)
        start, begin, end, stop = ends_of_parts
        start = tl.minimum(start, stop)
        ends_of_parts = parts(start, stop, tl.maximum(low, begin), tl.minimum(high, end), QUERIES)
    exponent = exponent_of_head(top_exponents, own)
    for member in range(shared):
        head = own * shared + member
        masked_as = head // mask_shared
        inside_here = shown(inner_mask, masked_as, keys, inners, exists, MASKED)
        if MASKED:  # hidden entries may be NaN
            K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
            V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
        for part in tl.static_range(3 if PEELED else 1):
            for first in range(ends_of_parts[part], ends_of_parts[part + 1], QUERIES):
                rows = first + tl.arange(0, QUERIES)
                last = tl.minimum(first + QUERIES, queries) - 1
                live, here = rows < queries, rows + offset
                of_head = head.to(tl.int64) * queries + rows
                shift = tl.load(lse + of_head, mask=live, other=0.0)
                against = tl.load(delta + of_head, mask=live, other=0.0)
                weight = shares_of(own_exponents, of_head, live, exponent, wide)
                block = (own, masked_as, first, last, offset, here)
                steps = steps_of(given, block, CAUSAL, PREFIX_WINDOW, 0)
                for step in range(steps):
                    # Read anew each time: registers are scarcer than cache.
                    if WITHIN and part == 1:
                        q = whole_rows(left, head, rows, queries, d, D)
                        g = whole_rows(incoming, head, rows, queries, d_v, D_V)
                        row = times_within(q, step, prefix_keys, given, block, PREFIX_WINDOW, d, D)
                        g_row = times_within(g, step, prefix_values, given, block, PREFIX_WINDOW, d_v, D_V)
                        base = shift
                    else:
                        q = rows_of(left, head, rows, queries, live, d, D)
                        g = rows_of(incoming, head, rows, queries, live, d_v, D_V)
                        row, may = times(
                            q, live, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 0
                        )
                        g_row, _ = times(
                            g, live, step, prefix_values, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d_v, D_V, 0
                        )
                        base = tl.where(may, shift, float("inf"))
                    row, g_row = computed_once(row.to(narrow), ONCE), computed_once(g_row.to(narrow), ONCE)
                    # Keys are rows and queries are columns, so that the weights are the left factors of the next
                    # products.
                    S = product(K, tl.trans(row), wide, PRECISION)
                    P = tl.exp2(S - base[None, :]) * weight[None, :]
                    if part != 1:
                        ends = reach(here, may, CAUSAL or INNER_WINDOW)
                        seen = allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW, True)
                        P = tl.where(seen, P, 0.0)
                    of_values = add_product(of_values, P.to(narrow), g_row, PRECISION)
                    dP = product(V, tl.trans(g_row), wide, PRECISION)
                    dS = (P * (dP - against[None, :])).to(narrow)
                    of_keys = add_product(of_keys, dS, row, PRECISION)
    of_keys = times_power(of_keys * tl.load(scales + 2), exponent)
    of_values = times_power(of_values * tl.load(scales + 3), exponent)
    put_rows(key_gradient, own, keys, inners, exists, of_keys, d, D)
    put_rows(value_gradient, own, keys, inners, exists, of_values, d_v, D_V)
