"""A few tokens appended to the states of a stream in Triton: state_alpha += sum_t x_t^alpha [v_t, 1], in float64.

Keys and values are read in place; coordinates are entries times a power of two. The tokens are first summed one after
the other, and the sum is then added to the state, which is rounded once however many tokens there are. A block of
monomials belongs to one program.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS


@triton.jit
def monomials_of_token(given, factors, rows, rank, d, degree, factor, ROWS: tl.constexpr):
    """Some monomials (ROWS,) of one token, whose entries are contiguous; 1 beyond the last monomial."""
    found = tl.full((ROWS,), 1.0, tl.float64)
    for place in range(degree):
        coordinate = tl.load(factors + rows * degree + place, mask=rows < rank, other=d)
        entry = tl.load(given + coordinate, mask=coordinate < d, other=0.0).to(tl.float64) * factor
        found *= tl.where(coordinate < d, entry, 1.0)
    return found


@triton.jit(do_not_specialize=LENGTHS)
def append_tokens(
    keys, values, factors, factor, state, rank, n, d, degree, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add n tokens, keys (heads, n, d) and values (heads, n, columns - 1), to the states (heads, rank, columns).

    The power of two is read from `factor`: as an argument it would be rounded to float32.
    """
    blocks = tl.cdiv(rank, ROWS)
    head, rows = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    power = tl.load(factor)
    sums = tl.zeros((ROWS, COLUMNS), tl.float64)
    for token in range(n):
        of_token = head.to(tl.int64) * n + token
        found = monomials_of_token(keys + of_token * d, factors, rows, rank, d, degree, power, ROWS)
        at = values + of_token * (columns - 1) + column
        W = tl.load(at, mask=column < columns - 1, other=1.0).to(tl.float64)
        sums += found[:, None] * W[None, :]
    at = state + (head.to(tl.int64) * rank + rows)[:, None] * columns + column[None, :]
    inside = (rows < rank)[:, None] & (column < columns)[None, :]
    tl.store(at, tl.load(at, mask=inside, other=0.0) + sums, mask=inside)
