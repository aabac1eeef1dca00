"""The gradients of windowed prefix keys and values in Triton: the sum of the partial sums of all blocks of queries.

`query_prefix_gradient` writes the partial sums. They are summed over the query heads that share a prefix key, and then
over the blocks of queries, in this order. A block of packed tiles is one position of `HEADS` heads.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import exponent_of_head, looking, put_rows, rows_of, times_power


@triton.jit(do_not_specialize=("queries", "prefixes", "offset", "window"))
def add_partials(
    key_partials, value_partials, top_exponents, scales, key_gradient, value_gradient, queries, prefixes, offset,
    window, shared,
    d: tl.constexpr, d_v: tl.constexpr, D: tl.constexpr, D_V: tl.constexpr, QUERIES: tl.constexpr, HEADS: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one block of prefix keys and values."""
    blocks = tl.cdiv(prefixes, ROWS)
    own, place = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS
    rows = place + tl.arange(0, ROWS)
    exists = rows < prefixes
    wide = scales.dtype.element_ty

    of_keys = tl.zeros((ROWS, D), wide)
    of_values = tl.zeros((ROWS, D_V), wide)
    partial_rows = tl.minimum(prefixes, QUERIES + window - 1)
    begin, end = looking(place, tl.minimum(place + ROWS, prefixes) - 1, offset, window, queries, False, True)
    for member in range(shared // HEADS):
        for block in range(begin // QUERIES, tl.cdiv(end, QUERIES)):
            first = block * QUERIES
            last = tl.minimum(first + QUERIES, queries) - 1
            lowest = tl.maximum(first + offset - window + 1, 0)
            attended = exists & (rows >= lowest) & (rows <= last + offset)
            if HEADS == 1:
                program = (own * shared + member) * tl.cdiv(queries, QUERIES) + block
            else:
                program = (own * queries + block) * (shared // HEADS) + member
            of_keys += rows_of(key_partials, program, rows - lowest, partial_rows, attended, d, D)
            of_values += rows_of(value_partials, program, rows - lowest, partial_rows, attended, d_v, D_V)
    exponent = exponent_of_head(top_exponents, own)
    of_keys = times_power(of_keys * tl.load(scales + 2), exponent)
    of_values = times_power(of_values * tl.load(scales + 3), exponent)
    put_rows(key_gradient, own, rows, prefixes, exists, of_keys, d, D)
    put_rows(value_gradient, own, rows, prefixes, exists, of_values, d_v, D_V)
