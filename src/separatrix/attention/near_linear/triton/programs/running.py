"""The states up to each token of a causal piece, for one monomial, in registers.

    Z_t = Z + sum_{s <= t} x_s^alpha W_s

in float64, Z being the state before the piece. Tokens of a piece are summed by tl.cumsum in an unspecified order: a
term goes through at most as many additions as the piece has tokens.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import monomial_of


@triton.jit
def columns_of(weights, head, tokens, source, n, columns):
    """W (tokens, columns) of one head, from (heads, columns, n): of the columns `source`, with zeros beyond n."""
    at = weights + head.to(tl.int64) * columns * n + source[None, :].to(tl.int64) * n + tokens[:, None]
    return tl.load(at, mask=(tokens < n)[:, None], other=0.0)


@triton.jit
def row_of(states, place, row, source, rank, columns):
    """The columns `source` of one row of states (..., rank, columns)."""
    return tl.load(states + (place.to(tl.int64) * rank + row) * columns + source)


@triton.jit
def running(
    x, factors, weights, before, m, head, heads, piece, pieces, row, tokens, source, n, d, degree, rank, columns,
    TOKENS: tl.constexpr,
):  # fmt: skip
    """The states (tokens, columns) of key set m up to each token of a piece, of one monomial.

    Coordinates x are (1 + sets, heads, d, n), those of the query first; weights are (sets, heads, columns, n) and the
    states before each piece (sets, heads, pieces, rank, columns).
    """
    of_set = m * heads + head
    found = monomial_of(x, factors, of_set + heads, row, tokens, n, d, degree, TOKENS)
    W = columns_of(weights, of_set, tokens, source, n, columns)
    earlier = row_of(before, of_set * pieces + piece, row, source, rank, columns)
    return earlier[None, :] + tl.cumsum(found[:, None] * W, 0)
