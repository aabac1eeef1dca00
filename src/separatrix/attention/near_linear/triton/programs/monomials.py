"""The monomials of a few tokens, computed in registers by the Triton kernels and never written to memory.

A monomial is the product of at most `degree` coordinates, listed in a table (rank, degree); where it has fewer, the
list ends with d, which stands for 1. Its factors are read from the coordinates (heads, d, tokens), in which tokens are
contiguous, and multiplied one after the other: at most `degree` - 1 roundings.
"""

from __future__ import annotations

import triton
import triton.language as tl

LENGTHS = ("n", "parts", "length", "pieces", "heads")
"""Arguments for which kernels are not specialised, so that a growing stream recompiles nothing."""


@triton.jit
def monomials_of(x, factors, head, rows, tokens, rank, n, d, degree, ROWS: tl.constexpr, TOKENS: tl.constexpr):
    """The monomials (ROWS, TOKENS) of some rows of the table for some tokens; 1 beyond the last row or token."""
    found = tl.full((ROWS, TOKENS), 1.0, x.dtype.element_ty)
    first = x + head.to(tl.int64) * d * n
    for place in range(degree):
        coordinate = tl.load(factors + rows * degree + place, mask=rows < rank, other=d)
        at = first + coordinate[:, None].to(tl.int64) * n + tokens[None, :]
        found *= tl.load(at, mask=(coordinate < d)[:, None] & (tokens < n)[None, :], other=1.0)
    return found


@triton.jit
def monomial_of(x, factors, head, row, tokens, n, d, degree, TOKENS: tl.constexpr):
    """One monomial (TOKENS,) for some tokens; 1 beyond the last of them."""
    found = tl.full((TOKENS,), 1.0, x.dtype.element_ty)
    first = x + head.to(tl.int64) * d * n
    for place in range(degree):
        coordinate = tl.load(factors + row * degree + place)
        at = first + coordinate.to(tl.int64) * n + tokens
        found *= tl.load(at, mask=(coordinate < d) & (tokens < n), other=1.0)
    return found
