r"""Sums of monomials over tokens, sum_j w_j x_j^alpha, for all alpha up to a degree, with a bound on their error.

Coordinates and weights are at most 1 in magnitude. The coordinates are split into two parts, x^alpha = y^beta z^gamma,
so that the sums are products of the matrix of the y^beta with the matrix of the w z^gamma, one block of rows for each
degree of beta, and only monomials of some of the coordinates are ever formed. The error, for c tokens at a time:

- A monomial of degree p and its weight are p + 1 products of numbers up to 1 in magnitude, one after the other, each
  with a relative error of at most u = 2^-53: in all less than (p + 1) u / (1 - (p + 1) u).
- A matrix product in float64, in any order and with or without fused additions, has an error of at most c u / (1 - c u)
  of the sum of magnitudes, which is at most c. Underflow adds less than 2^-1000 for each token.
- The sum over c tokens is rounded to a whole multiple of 2^-b and added in int64. There is no further rounding: the
  difference of two prefix sums is the sum over the tokens between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from flint import arb
from torch import Tensor

from separatrix.attention.checker import balls

TOKENS = 256
"""The largest number of tokens that are summed in one matrix product."""


@dataclass(frozen=True)
class MonomialTable:
    """All monomials of `width` coordinates up to a degree, ordered by degree; each monomial is an earlier monomial
    times a coordinate.

    >>> MonomialTable(2, 2).levels
    [[(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 1)]]
    """

    width: int
    degree: int

    @cached_property
    def levels(self) -> list[list[tuple[int, int]]]:
        """For each degree from 1 on and each of its monomials: the index of its parent, a monomial of one degree less,
        and the coordinate that the parent is multiplied by. Coordinates never decrease from parent to child.
        """
        levels: list[list[tuple[int, int]]] = []
        last = [0]
        for _ in range(self.degree):
            level = [(parent, at) for parent, least in enumerate(last) for at in range(least, self.width)]
            levels.append(level)
            last = [at for _, at in level]
        return levels

    def count(self, degree: int) -> int:
        """The number of monomials up to a degree."""
        return math.comb(self.width + degree, self.width)

    def size(self, degree: int) -> int:
        """The number of monomials of one degree."""
        return self.count(degree) - (self.count(degree - 1) if degree else 0)

    def rows(self, degree: int) -> slice:
        """The range of indices of the monomials of one degree."""
        return slice(self.count(degree) - self.size(degree), self.count(degree))

    def evaluate(self, x: Tensor) -> Tensor:
        """The values of the monomials, (count, tokens), at coordinates (width, tokens)."""
        monomials = [torch.ones(1, x.shape[1], dtype=torch.float64)]
        for level in self.levels:
            parents, coordinates = torch.tensor(level, dtype=torch.int64).reshape(-1, 2).unbind(1)
            monomials.append(monomials[-1][parents] * x[coordinates])
        return torch.cat(monomials)

    def coefficients(self, rho: Sequence[arb]) -> list[arb]:
        """The coefficient rho^alpha / alpha! of each monomial, in balls."""
        coefficients, below, exponents = [arb(1)], [arb(1)], [[0] * self.width]
        for level in self.levels:
            of_level, raised = [], []
            for parent, at in level:
                exponent = exponents[parent].copy()
                exponent[at] += 1
                raised.append(exponent)
                of_level.append(below[parent] * rho[at] / exponent[at])
            coefficients += of_level
            below, exponents = of_level, raised
        return coefficients


@dataclass(frozen=True)
class Split:
    """A split of the coordinates into two parts, and the degree of the expansion; sums without weights go one degree
    further."""

    left: MonomialTable
    right: MonomialTable
    degree: int

    @staticmethod
    def best(width: int, degree: int, columns: int) -> Split:
        """The split with the fewest products; the right part is computed for each column of weights."""

        def formed(right: int) -> int:
            return math.comb(width - right + degree + 1, degree + 1) + columns * math.comb(right + degree, degree)

        right = min(range(width + 1), key=formed)
        return Split(MonomialTable(width - right, degree + 1), MonomialTable(right, degree + 1), degree)

    def flops(self, columns: int, tokens: int) -> float:
        """The cost of the matrix products for one set of tokens."""
        width = self.left.width + self.right.width
        last = math.comb(width + self.degree, self.degree + 1)
        return 2.0 * tokens * (columns * math.comb(width + self.degree, width) + last)


@dataclass(frozen=True)
class MomentSums:
    """Sums of w_j y_j^beta z_j^gamma over tokens, in multiples of 2^-bits, one tensor for each degree of beta.

    Attributes:
        weighed: All columns of weights, for monomials up to the degree of the split: (betas, gammas, columns).
        last: The weights 1 for unmasked tokens, for monomials of one degree more: (betas, gammas).
        bits: The sums are multiples of 2^-bits.
        chunks: The number of chunks of tokens that were summed.
    """

    weighed: list[Tensor]
    last: list[Tensor]
    bits: int
    chunks: int

    def balls(self, before: MomentSums, split: Split, tokens: int) -> tuple[list[list[arb]], list[list[arb]]]:
        """The sums over the `tokens` tokens that follow those of `before`, row by row."""
        unit, u = balls.power_of_two(-self.bits), balls.power_of_two(-53)
        roundings = TOKENS + split.degree + 4
        relative = roundings * u / (1 - roundings * u) + balls.power_of_two(-1000)
        noise = balls.around(tokens * relative + (self.chunks - before.chunks) * unit)
        weighed, last = (
            [[unit * whole + noise for whole in (a - b).flatten().tolist()] for a, b in zip(these, those, strict=True)]
            for these, those in ((self.weighed, before.weighed), (self.last, before.last))
        )
        return weighed, last


def sums_at(x: Tensor, w: Tensor, split: Split, boundaries: Sequence[int]) -> dict[int, MomentSums]:
    """The sums over the tokens before each boundary, for coordinates (d, n) and weights (columns, n).

    The first column of weights is 1 for unmasked tokens and 0 for masked tokens.
    """
    left, right, degree = split.left, split.right, split.degree
    weighed = [torch.zeros(left.size(i), right.count(degree - i), len(w), dtype=torch.int64) for i in range(degree + 1)]
    last = [torch.zeros(left.size(i), right.size(degree + 1 - i), dtype=torch.int64) for i in range(degree + 2)]
    bits = 61 - max(x.shape[1], 1).bit_length()
    kept: dict[int, MomentSums] = {}
    start = chunks = 0
    for stop in sorted({0, *boundaries}):
        while start < stop:
            end = min(start + TOKENS, stop)
            _add(weighed, last, x[:, start:end], w[:, start:end], split, bits)
            start, chunks = end, chunks + 1
        kept[stop] = MomentSums([part.clone() for part in weighed], [part.clone() for part in last], bits, chunks)
    return kept


def _add(weighed: list[Tensor], last: list[Tensor], x: Tensor, w: Tensor, split: Split, bits: int) -> None:
    left, degree = split.left.evaluate(x[: split.left.width]), split.degree
    right = split.right.evaluate(x[split.left.width :])
    seen = right * w[0]
    right = right[: split.right.count(degree)].unsqueeze(1) * w  # (gammas, columns, tokens)

    def whole(sums: Tensor) -> Tensor:
        return sums.mul_(2.0**bits).round_().to(torch.int64)

    for i in range(degree + 2):
        rows = left[split.left.rows(i)]
        last[i] += whole(rows @ seen[split.right.rows(degree + 1 - i)].mT)
        if i <= degree:
            weighed[i] += whole(rows @ right[: split.right.count(degree - i)].flatten(0, 1).mT).view_as(weighed[i])
