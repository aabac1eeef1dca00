"""The gradients of prefix keys and values in Triton, of order 3 and up: one of them against all queries that attend it.

    dv_p = sum_i g_i * (sum_j P v_j),    dk_p = sum_i q_i * (sum_j dS k_j)

at order 3. With more prefix sets, each sum over queries goes over the keys of the others too, whose rows are factors.

A prefix key belongs to one program, which adds up the heads of queries that share it, in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.gpu.programs.tiles import (
    add_product,
    allowed,
    looking,
    may_see,
    places_at,
    product,
    put_rows,
    reach,
    rows_of,
    shown,
    shown_at,
    steps_of,
    times,
    visible,
)


@triton.jit
def prefix_gradient(
    left,
    prefix_keys,
    prefix_values,
    inner_keys,
    inner_values,
    prefix_mask,
    inner_mask,
    incoming,
    lse,
    delta,
    share,
    key_gradient,
    value_gradient,
    queries,
    prefixes,
    inners,
    offset,
    prefix_window,
    inner_window,
    shared,
    mask_shared,
    CAUSAL: tl.constexpr,
    PREFIX_WINDOW: tl.constexpr,
    INNER_WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    PREFIXES: tl.constexpr,
    d: tl.constexpr,
    d_v: tl.constexpr,
    D: tl.constexpr,
    D_V: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Write the gradients of one key of the first prefix set and of its value, that of the key times log2(e)."""
    own, prefix = tl.program_id(0) // prefixes[0], tl.program_id(0) % prefixes[0]
    first_at = prefix + tl.arange(0, 1)
    narrow = inner_keys.dtype.element_ty
    wide = left.dtype.element_ty

    of_key = tl.zeros((D,), wide)
    of_value = tl.zeros((D_V,), wide)
    start, stop = looking(
        prefix, prefix, offset, prefix_window[0], queries, CAUSAL or PREFIX_WINDOW[0], PREFIX_WINDOW[0]
    )
    for member in range(shared):
        head = own * shared + member
        masked_as = head // mask_shared
        for first in range(start, stop, QUERIES):
            rows = first + tl.arange(0, QUERIES)
            last = tl.minimum(first + QUERIES, queries) - 1
            here = rows + offset
            begins, counts, steps = steps_of(
                first, last, offset, prefix_window, prefixes, CAUSAL, PREFIX_WINDOW, 1, PREFIXES
            )
            for step in range(steps):
                at = (first_at,) + places_at(step, begins, counts, here, PREFIX_WINDOW, 1, PREFIXES)  # noqa: RUF005
                inside = shown_at(prefix_mask, masked_as, at, prefixes, MASKED, PREFIXES)
                live = may_see(rows < queries, here, at, inside, prefix_window, CAUSAL, PREFIX_WINDOW, PREFIXES)
                ends = reach(here, live, CAUSAL or INNER_WINDOW)
                q = rows_of(left, head, rows, queries, live, d, D)
                g = rows_of(incoming, head, rows, queries, live, d_v, D_V)
                of_head = head.to(tl.int64) * queries + rows
                shift = tl.load(lse + of_head, mask=live, other=0.0)
                against = tl.load(delta + of_head, mask=live, other=0.0)
                weight = tl.load(share + of_head, mask=live, other=0.0)
                row = times(q, prefix_keys, own, at, prefixes, inside, d, D, 0, PREFIXES).to(narrow)
                g_row = times(g, prefix_values, own, at, prefixes, inside, d_v, D_V, 0, PREFIXES).to(narrow)
                row_keys = tl.zeros((QUERIES, D), wide)
                row_values = tl.zeros((QUERIES, D_V), wide)
                low, high = visible(first, last, offset, inner_window, inners, CAUSAL or INNER_WINDOW, INNER_WINDOW)
                for place in range(low, high, KEYS):
                    keys = place + tl.arange(0, KEYS)
                    inside_here = shown(inner_mask, masked_as, keys, inners, MASKED)
                    K = rows_of(inner_keys, own, keys, inners, inside_here, d, D)
                    V = rows_of(inner_values, own, keys, inners, inside_here, d_v, D_V)
                    S = product(row, tl.trans(K), wide, PRECISION)
                    seen = allowed(ends, here, keys, inside_here, inner_window, INNER_WINDOW)
                    P = tl.where(seen, tl.exp2(S - shift[:, None]), 0.0) * weight[:, None]
                    row_values = add_product(row_values, P.to(narrow), V, PRECISION)
                    dP = product(g_row, tl.trans(V), wide, PRECISION)
                    dS = (P * (dP - against[:, None])).to(narrow)
                    row_keys = add_product(row_keys, dS, K, PRECISION)
                # Read anew: registers are scarcer than cache.
                row_keys *= rows_of(left, head, rows, queries, live, d, D)
                row_values *= rows_of(incoming, head, rows, queries, live, d_v, D_V)
                of_key += tl.sum(times(row_keys, prefix_keys, own, at, prefixes, inside, d, D, 1, PREFIXES), 0)
                of_value += tl.sum(
                    times(row_values, prefix_values, own, at, prefixes, inside, d_v, D_V, 1, PREFIXES), 0
                )
    exists = first_at >= 0
    put_rows(key_gradient, own, first_at, prefixes[0], exists, of_key[None, :], d, D)
    put_rows(value_gradient, own, first_at, prefixes[0], exists, of_value[None, :], d_v, D_V)
