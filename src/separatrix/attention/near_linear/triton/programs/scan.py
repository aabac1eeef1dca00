"""Causal near-linear attention in Triton: each query of a piece against the product of the states of its prefixes.

    out_t = sum_alpha c_alpha q_t^alpha prod_m Z_m,alpha,t

All is in float64. A piece of tokens belongs to one program, which processes the monomials one after the other. The last
column is the moment: the sums of ones, with other coefficients.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS, monomial_of
from separatrix.attention.near_linear.triton.programs.running import running


@triton.jit(do_not_specialize=LENGTHS)
def scan(
    x, factors, weights, before, coefficients, moments, out, heads, rank, n, d, degree, columns, pieces, sets,
    TOKENS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the sums (n, columns + 1) of one piece of one head; `running` describes the arguments."""
    head, piece = tl.program_id(0) // pieces, tl.program_id(0) % pieces
    tokens = piece * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, COLUMNS)
    source = tl.minimum(column, columns - 1)
    sums = tl.zeros((TOKENS, COLUMNS), tl.float64)
    for row in range(rank):
        coefficient = tl.where(column < columns, tl.load(coefficients + row), tl.load(moments + row))
        found = monomial_of(x, factors, head, row, tokens, n, d, degree, TOKENS)
        term = found[:, None] * coefficient[None, :]
        for m in range(sets):
            term *= running(
                x, factors, weights, before, m, head, heads, piece, pieces, row, tokens, source, n, d, degree, rank,
                columns, TOKENS,
            )  # fmt: skip
        sums += term
    at = out + (head.to(tl.int64) * n + tokens)[:, None] * (columns + 1) + column[None, :]
    tl.store(at, sums, mask=(tokens < n)[:, None] & (column <= columns)[None, :])
