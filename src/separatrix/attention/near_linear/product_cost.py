"""How many monomials a token has, how many of them are written, and what a product with them costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST_RANK, LARGEST_DEGREE = 1 << 17, 120
"""The largest rank and degree of a polynomial that is ever tried."""
GROUP = 4
"""The number of coordinates in a group of `products`: with nine columns each, about what a product needs."""


@dataclass(frozen=True)
class Expanded:
    """How many monomials there are, and what a product with them costs if their last factors are left out.

    Then `rows` are written for a token, and a product has `pairs` of a row and a coordinate (see `products`).
    """

    rank: int
    rows: int
    pairs: int

    def is_factored(self, d: int, columns: int) -> bool:
        """Whether fewer rows are written for a token if the last factors are left to operands of so many columns."""
        return self.rows + 2 * d * columns < self.rank

    def written(self, d: int, columns: int) -> int:
        return self.rows + 2 * d * columns if self.is_factored(d, columns) else self.rank

    def multiply_adds(self, d: int, columns: int) -> int:
        """The multiply-adds of a product with the monomials of a token."""
        return columns * (self.pairs if self.is_factored(d, columns) else self.rank)


def direct(rank: int) -> Expanded:
    """Monomials that are all multiplied out."""
    return Expanded(rank, rank, rank)


def expanded_total_degree(d: int, degree: int) -> Expanded:
    """The cost of products with all monomials of degree <= `degree`, by counting.

    >>> expanded_total_degree(8, 4)
    Expanded(rank=495, rows=165, pairs=800)
    """
    rank, rows = (math.comb(d + g, g) for g in (degree, max(degree - 1, 0)))
    if degree < 2:
        return direct(rank)
    pairs = sum(math.comb(last + degree - 1, degree - 1) * min(GROUP, last) for last in range(d, 0, -GROUP))
    return Expanded(rank, rows, pairs)
