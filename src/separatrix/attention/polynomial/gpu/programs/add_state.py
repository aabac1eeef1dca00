"""States in Triton: sum_n x_n^alpha W_n, for a block of monomials over all tokens of a chunk.

The tokens of a chunk are added up in float32, one after the other, and the sum is added to the state in float64. A
block belongs to one program, so that results have the same bits every time.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.polynomial.gpu.programs.monomials import monomials_of


@triton.jit
def add_state(
    x,
    factors,
    weights,
    state,
    rank,
    n,
    d,
    degree,
    columns,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add the products of monomials (rank, n) and weights (columns, n) to the state (rank, columns) of one head."""
    blocks = tl.cdiv(rank, ROWS)
    head, rows = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), x.dtype.element_ty)
    of_head = weights + head.to(tl.int64) * columns * n
    for start in range(0, n, TOKENS):
        tokens = start + tl.arange(0, TOKENS)
        found = monomials_of(x, factors, head, rows, tokens, rank, n, d, degree, ROWS, TOKENS)
        at = of_head + column[None, :].to(tl.int64) * n + tokens[:, None]
        W = tl.load(at, mask=(column < columns)[None, :] & (tokens < n)[:, None], other=0.0)
        sums = tl.dot(found, W, sums, input_precision="ieee", out_dtype=sums.dtype)
    at = state + (head.to(tl.int64) * rank + rows)[:, None] * columns + column[None, :]
    inside = (rows < rank)[:, None] & (column < columns)[None, :]
    tl.store(at, tl.load(at, mask=inside, other=0.0) + sums.to(tl.float64), mask=inside)
