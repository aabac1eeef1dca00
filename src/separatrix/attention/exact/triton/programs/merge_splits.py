"""The output and the log-sum-exp of queries in Triton, from the sums of programs of `attend` that split the prefix
keys.

The sums of a split are relative to 2 to the power of an integer, as those of a prefix in `attend`, and are added in the
order of the splits. So a weight goes through no more additions than in one sum over all prefix keys: if one split sums
n prefix keys and s splits are not empty, it goes through n + s - 2 additions, and there are at least n + s - 1 prefix
keys.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import power, put_output, rows_of


@triton.jit(do_not_specialize=("heads", "queries", "splits"))
def merge_splits(
    sums, peaks, out, lse, heads, queries, splits, d_v: tl.constexpr, D_V: tl.constexpr, ROWS: tl.constexpr
):
    """Write the results of one block of queries of one head.

    `sums` (splits, heads, queries, d_v) has sums of weighted values; `peaks` (2, splits, heads, queries) has the
    exponents relative to which they are stored, and the sums of the weights.
    """
    blocks = tl.cdiv(queries, ROWS)
    head, first = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS
    rows = first + tl.arange(0, ROWS)
    inside = rows < queries
    wide = sums.dtype.element_ty
    total = tl.zeros((ROWS,), wide)
    weighted = tl.zeros((ROWS, D_V), wide)
    peak = tl.full((ROWS,), float("-inf"), wide)
    for split in range(splits):
        part = split * heads + head
        place = peaks + part.to(tl.int64) * queries + rows
        own_peak = tl.load(place, mask=inside, other=float("-inf"))
        own_total = tl.load(place + splits.to(tl.int64) * heads * queries, mask=inside, other=0.0)
        higher = tl.maximum(peak, own_peak)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        fade, share = power(peak - base), power(own_peak - base)
        total = total * fade + own_total * share
        weighted = weighted * fade[:, None] + rows_of(sums, part, rows, queries, inside, d_v, D_V) * share[:, None]
        peak = higher
    put_output(out, lse, head, rows, queries, inside, weighted, total, peak, d_v, D_V)
