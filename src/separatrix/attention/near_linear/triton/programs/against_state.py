"""The sums of the queries in Triton: sum_alpha x_n^alpha M_alpha, for a block of tokens over all monomials.

The monomials are summed in their own dtype, one after the other, in tiles or one by one (see `add_state`). A block of
tokens belongs to one program.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS, monomial_of, monomials_of


@triton.jit(do_not_specialize=LENGTHS)
def against_state(
    x, factors, weights, out, rank, n, d, degree, columns,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, TILED: tl.constexpr,
):  # fmt: skip
    """Write the products of weights (rank, columns) and monomials (rank, n), (columns, n), of one head."""
    blocks = tl.cdiv(n, TOKENS)
    head, tokens = tl.program_id(0) // blocks, tl.program_id(0) % blocks * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, COLUMNS)
    sums = tl.zeros((TOKENS, COLUMNS), x.dtype.element_ty)
    of_head = weights + head.to(tl.int64) * rank * columns
    if TILED:
        for start in range(0, rank, ROWS):
            rows = start + tl.arange(0, ROWS)
            found = monomials_of(x, factors, head, rows, tokens, rank, n, d, degree, ROWS, TOKENS)
            at = of_head + rows[:, None].to(tl.int64) * columns + column[None, :]
            M = tl.load(at, mask=(rows < rank)[:, None] & (column < columns)[None, :], other=0.0)
            sums = tl.dot(tl.trans(found), M, sums, input_precision="ieee", out_dtype=sums.dtype)
    else:
        for row in range(rank):
            found = monomial_of(x, factors, head, row, tokens, n, d, degree, TOKENS)
            M = tl.load(of_head + tl.cast(row, tl.int64) * columns + column, mask=column < columns, other=0.0)
            sums += found[:, None] * M[None, :]
    at = out + head.to(tl.int64) * columns * n + column[None, :].to(tl.int64) * n + tokens[:, None]
    tl.store(at, sums, mask=(column < columns)[None, :] & (tokens < n)[:, None])
