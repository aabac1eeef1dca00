r"""Polynomials near exp, each with an error bound that is weighted by a power of the score.

For an even m <= g write exp(s) = sum_{p<m} s^p / p! + s^m h(s), h(s) = sum_j s^j / (j + m)!, and replace h by a
polynomial w of degree g - m. Then for every |s| <= R

    |exp(s) - P(s)| <= s^m * factor(R),    factor(R) >= max_{|s| <= R} |h(s) - w(s)|,

and the sum of s^m over all key tuples is a number the method computes too. Two families of polynomials use this bound:
- Taylor: w is h truncated, for every m, and factor(R) = sum_{p>g} R^(p-m) / p!, for any R; here w may be 0, m = g + 1;
- Chebyshev of moment m: w is the truncated Chebyshev series of h on [-R, R]; m = 0 is near-minimax approximation of
  exp itself (what Alman and Song's Corollary D.2 asks for), a larger m gives a smaller error if scores are mostly
  small.

A third family needs no moment. The minimax polynomials of `minimax` have |P(s) - exp(s)| <= e exp(s) on [-R, R], so
that the two distributions over tuples differ by at most tau = e / (1 + sqrt(1 - e^2)) in total variation, for all
scores (see `bounded_plan`).

Gradients are those of the polynomial, and exp is its own derivative, so their error depends on |exp(s) - P'(s)|.
Taylor's derivative is Taylor's polynomial of one degree less. For Chebyshev's, with e = h - w,

    exp(s) - P'(s) = m s^(m-1) e(s) + s^m e'(s),    |e'(s)| <= slope(R) = sum_j j^2 |c_j| / R,

c_j the Chebyshev coefficients of e, because |T_j'| <= j^2 on [-1, 1]; and summed over N tuples
sum_t |s_t|^(m-1) <= N^(1/m) (sum_t s_t^m)^((m-1)/m), by Hoelder's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.polynomial.chebyshev import cheb2poly

from separatrix.attention.near_linear.approximation.minimax import minimax
from separatrix.attention.near_linear.cost import LARGEST_DEGREE

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDING = 2.0**-40
"""A relative margin for the rounding of the numbers below, which are sums of some dozens of positive terms."""


@dataclass(frozen=True)
class Polynomial:
    """P(s) = sum_p coefficients[p] s^p with |exp(s) - P(s)| <= s^moment * factor for |s| <= radius.

    `slope` bounds the derivative of (exp(s) - P(s)) / s^moment for these s. The Taylor polynomial has radius infinity,
    and a separate factor for each radius: `factors`. A polynomial with a `relative` error has neither factor nor slope:
    |exp(s) - P(s)| <= relative * exp(s), and the error of its gradients is not bounded.
    """

    coefficients: tuple[float, ...]
    moment: int
    radius: float
    factor: float | None
    slope: float | None = None
    relative: float | None = None

    @property
    def variation(self) -> float | None:
        """The total variation between the weights of P and those of exp, if the error of P is relative to exp."""
        if self.relative is None:
            return None
        return self.relative / (1 + math.sqrt(1 - self.relative**2)) * (1 + _ROUNDING)

    @cached_property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    def factors(self, radii: Tensor, largest: float) -> Tensor:
        """A bound on |exp(s) - P(s)| / s^moment for |s| <= radii <= largest, entry by entry."""
        assert self.relative is None, "the error is relative to exp"
        if self.factor is not None:
            return radii.new_full(radii.shape, self.factor)
        return taylor_factor(self.degree, self.moment, radii, largest)

    def derivative_error(self, radii: Tensor, largest: float, power: Tensor, tuples: Tensor) -> Tensor:
        """A bound on sum_t |exp(s_t) - P'(s_t)|, for `tuples` scores up to radii <= largest with sum_t s_t^moment <=
        power.
        """
        assert self.relative is None, "bounds on gradients need an error that is weighted by a moment"
        if self.factor is None or self.slope is None:
            assert self.moment <= self.degree, "P' is a polynomial of one degree less"
            return taylor_factor(self.degree - 1, self.moment, radii, largest) * power
        if self.moment == 0:
            return self.slope * tuples
        share = 1 / self.moment
        odd = tuples**share * power ** (1 - share)
        return self.moment * self.factor * odd + self.slope * power

    def magnitude(self, radii: Tensor) -> Tensor:
        """sum_p |coefficients[p]| radii^p."""
        return _horner(self.coefficients, radii)

    def derivative_magnitude(self, radii: Tensor) -> Tensor:
        """sum_p p |coefficients[p]| radii^(p - 1)."""
        return _horner([p * coefficient for p, coefficient in enumerate(self.coefficients)][1:], radii)


def _horner(coefficients: Sequence[float], at: Tensor) -> Tensor:
    """sum_p |coefficients[p]| at^p."""
    total = at.new_full(at.shape, abs(coefficients[-1]) if coefficients else 0.0)
    for coefficient in reversed(coefficients[:-1]):
        total.mul_(at).add_(abs(coefficient))
    return total


def taylor_factor(degree: int, moment: int, radii: Tensor, largest: float) -> Tensor:
    """An upper bound on sum_{p > degree} radii^(p - moment) / p!, for radii up to `largest`; the terms are positive, so
    nothing cancels.

    >>> import torch
    >>> R = torch.tensor([1.0], dtype=torch.float64)
    >>> bool(taylor_factor(1, 0, R, 1.0) >= math.e - 2), round(taylor_factor(1, 0, R, 1.0).item(), 8)
    (True, 0.71828183)
    """
    first, ones, total = degree + 1, radii.new_ones(()), radii.new_full(radii.shape, 2.0)
    for p in range(_last_term(first, largest), first, -1):
        total = ones.addcmul(total, radii, value=1 / p)
    total *= radii ** (first - moment)
    total *= (1 + _ROUNDING) / float(math.factorial(first))
    return total


def taylor_factor_of_number(degree: int, moment: int, radius: float) -> float:
    """`taylor_factor` of one number, computed without torch.

    >>> round(taylor_factor_of_number(1, 0, 1.0), 8)
    0.71828183
    """
    first, total = degree + 1, 2.0
    for p in range(_last_term(first, radius), first, -1):
        total = 1.0 + total * radius * (1 / p)
    return total * radius ** (first - moment) * ((1 + _ROUNDING) / float(math.factorial(first)))


def _last_term(first: int, largest: float) -> int:
    """The last term of the series that Horner's rule adds; twice this term covers the rest.

    sum_j R^j / ((first + 1) ... (first + j)) ends at a term below 2^-30, after which the terms at least halve: the rest
    sums to no more than twice that term.
    """
    last, term = first, 1.0
    while term > 2.0**-30 or last < 2 * largest:
        last += 1
        term *= largest / last
    return last


@cache
def taylor(degree: int, beyond: bool = False) -> Polynomial:
    """The Taylor polynomial with the largest even moment up to the degree or, if `beyond`, up to the degree + 1.

    >>> taylor(3).coefficients
    (1.0, 1.0, 0.5, 0.16666666666666666)
    >>> [taylor(3).moment, taylor(3, beyond=True).moment, taylor(4, beyond=True).moment]
    [2, 4, 4]
    """
    moment = degree + degree % 2 if beyond else degree - degree % 2
    return Polynomial(tuple(1 / math.factorial(p) for p in range(degree + 1)), moment, math.inf, None)


def relative_minimax(degree: int, radius: float, largest_error: float) -> Polynomial | None:
    """The polynomial of smallest error relative to exp; None if every polynomial of the degree has a larger error.

    The error `relative` of the result may be larger by a thousandth, and by the rounding of its coefficients. The
    radius is rounded up to a multiple of 1/64, so that calls with about the same scores share a polynomial.

    >>> relative_minimax(3, 1.0, 0.01).relative < 0.0053, relative_minimax(3, 1.0, 0.001)
    (True, None)
    """
    best = minimax(degree, math.ceil(64 * radius) / 64, largest_error)
    return None if best is None else Polynomial(best.coefficients, 0, best.radius, None, relative=best.error)


@lru_cache(maxsize=64)
def _to_chebyshev(terms: int) -> npt.NDArray[np.float64]:
    """The matrix from monomial to Chebyshev coefficients; its entries are positive and at most 1.

    Column p + 1 is column p times x, and x T_j = (T_(j-1) + T_(j+1)) / 2, x T_0 = T_1.
    """
    matrix = np.zeros((terms, terms))
    matrix[0, 0] = 1.0
    for p in range(terms - 1):
        half = matrix[:, p] / 2
        matrix[1:, p + 1] = half[:-1]
        matrix[:-1, p + 1] += half[1:]
        matrix[1, p + 1] += half[0]
    return matrix


@lru_cache(maxsize=256)
def _left_out(moment: int, radius: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """sum_{j>=n} |c_j| and sum_{j>=n} j^2 |c_j| / radius for every n, c_j the Chebyshev coefficients of h."""
    terms = -(-(LARGEST_DEGREE + 40 + 4 * math.ceil(radius)) // 32) * 32
    c = _to_chebyshev(terms) @ _series(moment, radius, terms)
    return c[::-1].cumsum()[::-1], (np.arange(terms) ** 2.0 * c)[::-1].cumsum()[::-1] / radius


def least_chebyshev(degree: int, moment: int, radius: float) -> tuple[float, float]:
    """Lower bounds on `factor` and `slope` of the polynomial of `chebyshev`, at a small fraction of its cost.

    >>> best = chebyshev(4, 0, 1.0)
    >>> factor, slope = least_chebyshev(4, 0, 1.0)
    >>> 0.9 * best.factor < factor <= best.factor, 0.9 * best.slope < slope <= best.slope
    (True, True)
    """
    tails, slopes = _left_out(moment, radius)
    kept = degree - moment + 1
    lost = _ROUNDING * 2.0**-4
    return 0.99 * (float(tails[kept]) + lost * float(tails[0])), 0.99 * (float(slopes[kept]) + lost * float(slopes[0]))


def _series(moment: int, radius: float, terms: int) -> npt.NDArray[np.float64]:
    """The coefficients of h(radius x) in x."""
    ratios = [1 / math.factorial(moment), *(radius / (j + moment) for j in range(1, terms))]
    return np.cumprod(ratios, dtype=np.float64)


def chebyshev(degree: int, moment: int, radius: float) -> Polynomial:
    """The polynomial with Taylor's coefficients below `moment`, and a near-minimax polynomial with weight s^moment from
    there on.

    >>> import torch
    >>> best = chebyshev(4, 0, 1.0)
    >>> round(best.factor / taylor(4).factors(torch.tensor([1.0]), 1.0).item(), 3)  # both bound the error on [-1, 1]
    0.059
    """
    terms = -(-(degree + 40 + 4 * math.ceil(radius)) // 32) * 32
    series = _series(moment, radius, terms)
    to_chebyshev = _to_chebyshev(terms)
    w = cheb2poly((to_chebyshev @ series)[: degree - moment + 1])
    # The computation uses rounded monomial coefficients of w; this bounds their error term by term in Chebyshev's
    # basis.
    left = series.copy()
    left[: len(w)] -= w
    beyond = series[-1]
    rounding = _ROUNDING * 2.0**-4 * (np.abs(series).sum() + np.abs(w).sum())
    factor = float(np.abs(to_chebyshev @ left).sum() + beyond + rounding)
    # In the derivative, a coefficient and its rounding error are multiplied by j^2; the terms of the series beyond the
    # last decrease by a factor of at least 4, so that their weighted sum is at most the last weighted term.
    known = np.abs(to_chebyshev @ left)
    lost = _ROUNDING * 2.0**-4 * (to_chebyshev @ (np.abs(series) + np.pad(np.abs(w), (0, terms - len(w)))))
    slope = float((np.arange(terms) ** 2.0 * (known + lost)).sum() + terms * beyond) / radius * (1 + _ROUNDING)
    head = [1 / math.factorial(p) for p in range(moment)]
    return Polynomial((*head, *(float(x) / radius**j for j, x in enumerate(w))), moment, radius, factor, slope)
