"""How many monomials a token has, and what a product with them is counted as in the cost of a plan.

The count is that of products that leave the last factor of each monomial to the other operand: with l the largest
coordinate of alpha and beta = alpha less one there, x^alpha W = x^beta (x_l W). A beta meets only coordinates from its
largest on, in groups of `GROUP`. The rates of `cost` were measured with this count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from separatrix.attention.near_linear.approximation.monomials import IndexSet

LARGEST_RANK, LARGEST_DEGREE = 1 << 17, 120
"""The largest rank and degree of a polynomial that is ever tried."""
GROUP = 4
"""The number of coordinates in a group."""


@dataclass(frozen=True)
class Expanded:
    """How many monomials there are, how many rows remain without their last factors, and the pairs that these form.

    A pair is a row and a coordinate that multiplies it.
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


def expanded(index_set: IndexSet) -> Expanded:
    """The cost of products with the monomials of a set."""
    d = index_set.dimension
    if index_set.degree < 2 or d == 0:
        return direct(index_set.rank)
    rows = index_set.levels[-1][0]
    last = index_set.last[:rows]
    pairs = sum(int((last < stop).sum()) * min(GROUP, stop) for stop in range(d, 0, -GROUP))
    return Expanded(index_set.rank, rows, pairs)


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
