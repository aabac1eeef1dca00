"""A few queries against the states of a stream in Triton: sum_alpha c_alpha q^alpha prod_m Z_m,alpha, in float64.

A program computes a block of monomials, and the sums of the blocks are added afterwards. The product of the states and
the coefficients is computed once for all queries of a call.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.append_tokens import monomials_of_token
from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS


@triton.jit(do_not_specialize=LENGTHS)
def ask_states(
    query, states, factors, factor, coefficients, out, rank, n, d, degree, columns,
    SETS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the sums (n, columns) over one block of monomials of one head, of a tuple of states (heads, rank, columns).

    Queries are (heads, n, d), and `out` is (heads, blocks, n, columns).
    """
    blocks = tl.cdiv(rank, ROWS)
    head, rows = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    power = tl.load(factor)
    at = (head.to(tl.int64) * rank + rows)[:, None] * columns + column[None, :]
    inside = (rows < rank)[:, None] & (column < columns)[None, :]
    product = tl.load(states[0] + at, mask=inside, other=0.0)
    for m in tl.static_range(1, SETS):
        product *= tl.load(states[m] + at, mask=inside, other=0.0)
    product *= tl.load(coefficients + rows, mask=rows < rank, other=0.0)[:, None]
    for token in range(n):
        given = query + (head.to(tl.int64) * n + token) * d
        found = monomials_of_token(given, factors, rows, rank, d, degree, power, ROWS)
        into = out + (tl.program_id(0).to(tl.int64) * n + token) * columns + column
        tl.store(into, tl.sum(found[:, None] * product, 0), mask=column < columns)
