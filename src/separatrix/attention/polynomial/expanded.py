"""How many monomials a token has, how many of them are written, and what a product with them costs."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_RANK, LARGEST_DEGREE = 1 << 17, 120
"""The largest rank and degree of a polynomial that is ever tried."""


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
