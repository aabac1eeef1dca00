"""The gradients of the queries of order 3 and up in Triton: a block of queries against one prefix after the other.

With P = 2^(S - lse) the weights of a query,

    dS = P * (g (v_p * v_j) - delta),    dq = sum_p k_p * (sum_j dS_j k_j),

where g is the incoming gradient of the query, and delta is its product with the output minus the gradient of the
log-sum-exp.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import (
    LENGTHS,
    add_product,
    allowed,
    parts_of_keys,
    product,
    put_rows,
    reach,
    rows_of,
    shown,
    steps_of,
    times,
    times_power,
)


@triton.jit(do_not_specialize=LENGTHS)
def query_gradient(
    left, prefix_keys, prefix_values, inner_keys, inner_values, prefix_mask, inner_mask, incoming, lse, delta,
    own_exponents, top_exponents, scales, gradient, _gradient, queries, table, sets, prefixes, inners, offset,
    inner_window, shared, mask_shared,
    CAUSAL: tl.constexpr, PREFIX_WINDOW: tl.constexpr, INNER_WINDOW: tl.constexpr, MASKED: tl.constexpr,
    PEELED: tl.constexpr, PRECISION: tl.constexpr, d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr,
    D_V: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one block of queries of one head; three arguments are not used."""
    blocks = tl.cdiv(queries, QUERIES)
    head, first = tl.program_id(0) // blocks, tl.program_id(0) % blocks * QUERIES
    own, masked_as = head // shared, head // mask_shared
    rows = first + tl.arange(0, QUERIES)
    last = tl.minimum(first + QUERIES, queries) - 1
    live, here = rows < queries, rows + offset
    of_head = head.to(tl.int64) * queries + rows
    shift = tl.load(lse + of_head, mask=live, other=0.0)
    against = tl.load(delta + of_head, mask=live, other=0.0)
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    found = tl.zeros((QUERIES, D), wide)
    ends_of_parts = parts_of_keys(
        first, last, offset, inner_window, inners, KEYS, CAUSAL or INNER_WINDOW, INNER_WINDOW, PEELED
    )
    given, block = (prefix_mask, table, sets, prefixes), (own, masked_as, first, last, offset, here)
    steps = steps_of(given, block, CAUSAL, PREFIX_WINDOW, 0)
    for step in range(steps):
        # Read anew each time: registers are scarcer than cache.
        q = rows_of(left, head, rows, queries, live, d, D)
        g = rows_of(incoming, head, rows, queries, live, d_v, D_V)
        row, may = times(q, live, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 0)
        row = row.to(narrow)
        g_row, _ = times(g, live, step, prefix_values, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d_v, D_V, 0)
        g_row = g_row.to(narrow)
        ends = reach(here, may, CAUSAL or INNER_WINDOW)
        row_found = tl.zeros((QUERIES, D), wide)
        for part in tl.static_range(3 if PEELED else 1):
            for place in range(ends_of_parts[part], ends_of_parts[part + 1], KEYS):
                keys = place + tl.arange(0, KEYS)
                inside_here = shown(inner_mask, masked_as, keys, inners, keys < inners, MASKED)
                K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
                V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
                S = product(row, tl.trans(K), wide, PRECISION)
                dP = product(g_row, tl.trans(V), wide, PRECISION)
                P = tl.exp2(S - shift[:, None])
                if part != 1:
                    P = tl.where(allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW), P, 0.0)
                dS = (P * (dP - against[:, None])).to(narrow)
                row_found = add_product(row_found, dS, K, PRECISION)
        # Queries that may not attend the prefix have scores in blocks without comparisons, which are dropped here.
        row_found = tl.where(may[:, None], row_found, 0.0)
        row_found, _ = times(row_found, live, step, prefix_keys, given, block, CAUSAL, PREFIX_WINDOW, MASKED, d, D, 0)
        found += row_found
    exponents = tl.load(own_exponents + of_head, mask=live, other=0)
    found = times_power(found * tl.load(scales + 1), exponents[:, None])
    put_rows(gradient, head, rows, queries, live, found, d, D)
