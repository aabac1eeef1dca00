"""The backward pass of the causal scan in Triton, in float64, for one factor of a piece: the query or a key set.

With g_t the gradient of the sums of query t, and S_m,t the states up to it,

    dq_t^alpha = c_alpha <g_t, prod_m S_m,t>,    dS_m,t = c_alpha q_t^alpha g_t prod_{l != m} S_l,t,
    dA_m,t = sum_{s >= t} dS_m,s + what comes from later pieces,
    dx_t^alpha = <dA_m,t, W_t>,    dW_t = sum_alpha dA_m,t x_t^alpha.

Two passes go over the pieces: the first (`WHOLE`) writes the sums of dS over each piece, which `carry` adds up from the
last piece to the first; the second writes the gradients of monomials and of W.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS, monomial_of
from separatrix.attention.near_linear.triton.programs.running import columns_of, row_of, running


@triton.jit(do_not_specialize=LENGTHS)
def scan_back(
    x, factors, weights, before, coefficients, incoming, later, of_monomials, of_weights, heads, rank, n, d, degree,
    columns, pieces, sets,
    TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Write the gradients of one factor of one piece of one head: 0 is the query, 1 + m is key set m.

    The incoming gradients are (heads, columns, n). If `WHOLE`, the sums of dS are written to `later` (sets, heads,
    pieces, rank, columns), and there is no program for the query. Otherwise `later` contains the sums of later pieces,
    and the gradients are written to `of_monomials` (1 + sets, heads, rank, n) and `of_weights` (sets, heads, columns,
    n).
    """
    piece, place = tl.program_id(0) % pieces, tl.program_id(0) // pieces
    if WHOLE:
        place += heads
    factor, head = place // heads, place % heads
    tokens = piece * TOKENS + tl.arange(0, TOKENS)
    inside = tokens < n
    column = tl.arange(0, COLUMNS)
    source = tl.minimum(column, columns - 1)
    g = columns_of(incoming, head, tokens, source, n, columns)
    g = tl.where((column < columns)[None, :], g, 0.0)
    own = tl.maximum(place - heads, 0)
    sums = tl.zeros((TOKENS, COLUMNS), tl.float64)
    for row in range(rank):
        others = g * tl.load(coefficients + row)
        for m in range(sets):
            states = running(
                x, factors, weights, before, m, head, heads, piece, pieces, row, tokens, source, n, d, degree, rank,
                columns, TOKENS,
            )  # fmt: skip
            others = tl.where(m + 1 == factor, others, others * states)
        at = of_monomials + (place.to(tl.int64) * rank + row) * n + tokens
        if factor == 0:
            tl.store(at, tl.sum(others, 1), mask=inside)
        else:
            query = monomial_of(x, factors, head, row, tokens, n, d, degree, TOKENS)
            of_states = others * query[:, None]
            if WHOLE:
                into = later + ((own * pieces + piece).to(tl.int64) * rank + row) * columns + column
                tl.store(into, tl.sum(of_states, 0), mask=column < columns)
            else:
                W = columns_of(weights, own, tokens, source, n, columns)
                after = tl.where(column < columns, row_of(later, own * pieces + piece, row, source, rank, columns), 0.0)
                added = after[None, :] + tl.cumsum(of_states, 0, reverse=True)
                tl.store(at, tl.sum(added * W, 1), mask=inside)
                sums += added * monomial_of(x, factors, place, row, tokens, n, d, degree, TOKENS)[:, None]
    if not WHOLE:
        at = of_weights + own.to(tl.int64) * columns * n + column[None, :].to(tl.int64) * n + tokens[:, None]
        tl.store(at, sums, mask=inside[:, None] & ((column < columns) & (factor > 0))[None, :])
