"""The gradients of prefix keys and values in Triton, of order 3 and higher: each program visits one prefix key and all
queries that attend it.

    dv_p = sum_i g_i * (sum_j P v_j),    dk_p = sum_i q_i * (sum_j dS k_j)

at order 3. With several prefix sets, each sum over queries also runs over the keys of the other sets, whose rows are
factors.

A prefix key belongs to one program, which adds up the heads of queries that share it, in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import (
    LENGTHS,
    add_product,
    allowed,
    exponent_of_head,
    looking,
    parts_of_keys,
    product,
    put_rows,
    reach,
    rows_of,
    sees,
    shares_of,
    shown,
    steps_of,
    times,
    times_power,
)


@triton.jit(do_not_specialize=LENGTHS)
def prefix_gradient(
    left, prefix_keys, prefix_values, inner_keys, inner_values, prefix_mask, inner_mask, incoming, lse, delta,
    own_exponents, top_exponents, scales, key_gradient, value_gradient, queries, table, sets, prefixes, inners, offset,
    inner_window, shared, mask_shared,
    CAUSAL: tl.constexpr, PREFIX_WINDOW: tl.constexpr, INNER_WINDOW: tl.constexpr, MASKED: tl.constexpr,
    PEELED: tl.constexpr, PRECISION: tl.constexpr, d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr,
    D_V: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one key of the first prefix set and of its value."""
    start, length, window = tl.load(table), tl.load(table + 1), tl.load(table + 2)
    own, prefix = tl.program_id(0) // length, tl.program_id(0) % length
    prefix_row = start + prefix + tl.arange(0, 1)
    exists = prefix_row >= 0
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    of_key = tl.zeros((D,), wide)
    of_value = tl.zeros((D_V,), wide)
    given = (prefix_mask, table, sets, prefixes)
    exponent = exponent_of_head(top_exponents, own)
    begin, end = looking(prefix, prefix, offset, window, queries, CAUSAL, PREFIX_WINDOW)
    for member in range(shared):
        head = own * shared + member
        masked_as = head // mask_shared
        inside = shown(prefix_mask, masked_as, prefix_row, prefixes, exists, MASKED)
        k = rows_of(prefix_keys, own, prefix_row, prefixes, inside, d, D).to(wide)
        v = rows_of(prefix_values, own, prefix_row, prefixes, inside, d_v, D_V).to(wide)
        for first in range(begin, end, QUERIES):
            rows = first + tl.arange(0, QUERIES)
            last = tl.minimum(first + QUERIES, queries) - 1
            here = rows + offset
            block = (own, masked_as, first, last, offset, here)
            attends = (rows < queries) & inside & sees(here, prefix, window, CAUSAL, PREFIX_WINDOW)
            for step in range(steps_of(given, block, CAUSAL, PREFIX_WINDOW, 1)):
                q = rows_of(left, head, rows, queries, attends, d, D)
                g = rows_of(incoming, head, rows, queries, attends, d_v, D_V)
                of_head = head.to(tl.int64) * queries + rows
                shift = tl.load(lse + of_head, mask=attends, other=0.0)
                against = tl.load(delta + of_head, mask=attends, other=0.0)
                weight = shares_of(own_exponents, of_head, attends, exponent, wide)
                row, may = times(
                    q * k, attends, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 1
                )
                row = row.to(narrow)
                g_row, _ = times(
                    g * v, attends, step, prefix_values, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d_v, D_V, 1
                )
                g_row = g_row.to(narrow)
                ends = reach(here, may, CAUSAL or INNER_WINDOW)
                row_keys = tl.zeros((QUERIES, D), wide)
                row_values = tl.zeros((QUERIES, D_V), wide)
                ends_of_parts = parts_of_keys(
                    first, last, offset, inner_window, inners, KEYS, CAUSAL or INNER_WINDOW, INNER_WINDOW, PEELED
                )
                for part in tl.static_range(3 if PEELED else 1):
                    for place in range(ends_of_parts[part], ends_of_parts[part + 1], KEYS):
                        keys = place + tl.arange(0, KEYS)
                        inside_here = shown(inner_mask, masked_as, keys, inners, keys < inners, MASKED)
                        K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
                        V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
                        S = product(row, tl.trans(K), wide, PRECISION)
                        P = tl.exp2(S - shift[:, None]) * weight[:, None]
                        if part != 1:
                            P = tl.where(allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW), P, 0.0)
                        row_values = add_product(row_values, P.to(narrow), V, PRECISION)
                        dP = product(g_row, tl.trans(V), wide, PRECISION)
                        dS = (P * (dP - against[:, None])).to(narrow)
                        row_keys = add_product(row_keys, dS, K, PRECISION)
                # Scores of queries that may not attend, which blocks without comparisons compute, are discarded here.
                row_keys = tl.where(may[:, None], row_keys, 0.0)
                row_values = tl.where(may[:, None], row_values, 0.0)
                # Read anew: registers are scarcer than cache.
                row_keys *= rows_of(left, head, rows, queries, attends, d, D)
                row_values *= rows_of(incoming, head, rows, queries, attends, d_v, D_V)
                row_keys, _ = times(
                    row_keys, attends, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 1
                )
                row_values, _ = times(
                    row_values, attends, step, prefix_values, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d_v, D_V, 1
                )
                of_key += tl.sum(row_keys, 0)
                of_value += tl.sum(row_values, 0)
    of_key = times_power(of_key * tl.load(scales + 2), exponent)
    of_value = times_power(of_value * tl.load(scales + 3), exponent)
    put_rows(key_gradient, own, prefix + tl.arange(0, 1), length, exists, of_key[None, :], d, D)
    put_rows(value_gradient, own, prefix + tl.arange(0, 1), length, exists, of_value[None, :], d_v, D_V)
