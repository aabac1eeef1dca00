r"""Minimax polynomials of exp in relative error: for a degree n and a radius R, P minimises

    max_{|s| <= R} |r(s)|,    r(s) = P(s) exp(-s) - 1.

`minimax` finds the n + 2 points at which r takes its largest magnitude, with alternating signs, by Remez's exchange. On
n + 2 points x_0 < x_1 < ... (a *reference*) the polynomial with r(x_i) = -(-1)^i E is unique, and since its divided
difference of order n + 1 vanishes,

    E = sum_i w_i exp(x_i) / sum_i (-1)^i w_i exp(x_i),    w_i = 1 / prod_{j != i} (x_i - x_j).

No polynomial of degree n has a smaller relative error than |E|. Every zero of r' = (P' - P) exp(-s) lies between two
neighbouring zeros of r: the next reference consists of these n points and both ends of the interval.

**The error is proved for the polynomial that is used.** Let Q = P' - P change its sign in each of n disjoint intervals:
then, with a = max |r| over the ends of all intervals and of [-R, R], h the largest width of an interval and q_p the
coefficients of Q,

    max |r| <= a + h exp(R) sum_p |q_p| R^p.

Coefficients are rounded to float64 last, which adds exp(R) sum_p |b_p - a_p| R^p. Everything is computed in decimal
arithmetic, which is the same on every machine, with enough digits to make its rounding error negligible; the bounds
include it (see docs/derivations/bounded-attention.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

_Interval = tuple[Decimal, Decimal]
_SMALLEST_RADIUS = 2.0**-20
"""Radii below this one use the polynomial of this radius: even a straight line has an error of less than 1e-12
there."""
_LEVEL = Decimal("1.001")
"""The exchange stops when the largest error is at most this multiple of the smallest possible error."""
_EXCHANGES = 30
"""An upper bound on the number of exchanges, which converge quadratically."""
_HALVINGS = 60
"""An upper bound on the number of bisections that find a point next to a zero of r, where r is steep."""


@dataclass(frozen=True)
class RelativePolynomial:
    """P(s) = sum_p coefficients[p] s^p with |P(s) - exp(s)| <= error * exp(s) for |s| <= radius."""

    coefficients: tuple[float, ...]
    radius: float
    error: float

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    def magnitude(self, radius: float) -> float:
        """sum_p |coefficients[p]| radius^p; the terms are positive, and 2^-40 of it allows for their rounding.

        >>> RelativePolynomial((1.0, -2.0), 1.0, 0.5).magnitude(3.0) - 7.0 < 1e-10
        True
        """
        return sum(abs(a) * radius**p for p, a in enumerate(self.coefficients)) * (1 + 2.0**-40)


@lru_cache(maxsize=256)
def minimax(degree: int, radius: float, largest_error: float = math.inf) -> RelativePolynomial | None:
    """The polynomial of smallest relative error on [-radius, radius], up to a thousandth, with float64 coefficients.

    Args:
        degree: The degree, at least 1.
        radius: The largest score, at least 0.
        largest_error: The largest error that is useful to the caller.

    Returns:
        The polynomial; None if every polynomial of this degree has a larger error than `largest_error`, which for most
        degrees that are too low is visible at the first reference.

    Example:
        >>> P = minimax(3, 1.0)
        >>> [round(a, 3) for a in P.coefficients], round(P.error, 4)
        ([0.997, 1.011, 0.539, 0.159], 0.005)
        >>> minimax(3, 1.0, largest_error=1e-3) is None
        True
    """
    with localcontext(Context(prec=_digits(degree, radius), rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        R = _interval(radius)
        points = _first_reference(degree, R)
        if _rough_level(points) > 1.01 * largest_error + 1e-12:
            return None
        for _ in range(_EXCHANGES):
            least, coefficients = _levelled(points)
            if abs(least) > largest_error:
                return None
            separators = _separators(coefficients, points)
            points = [-R, *(low for low, _ in _critical(coefficients, separators, 12)), R]
            if max(abs(_residual(coefficients, x)) for x in points) <= _LEVEL * abs(least):
                break
        # exp(2 R) is less than 2^(3 R): the widths add less to the error than the coefficients' rounding to float64.
        intervals = _critical(coefficients, separators, 64 + 3 * math.ceil(R))
        rounded = tuple(float(a) for a in coefficients)
        error = _proved_error(coefficients, intervals, R) + _distance(coefficients, rounded, R) * R.exp()
        return RelativePolynomial(rounded, float(R), float(error) * (1 + 2.0**-50))


def _interval(radius: float) -> Decimal:
    return Decimal(max(radius, _SMALLEST_RADIUS))


def _digits(degree: int, radius: float) -> int:
    """Digits of the decimal arithmetic: 60 beyond those that cancel.

    In the sums for E as many digits cancel as E has zeros after the decimal point, and E > (R / 4)^(n + 1) / (n + 1)!
    exp(-2 R); Newton's form and the monomials lose less than a digit for each degree.
    """
    R = float(_interval(radius))
    least = (degree + 1) * math.log10(4 / R) + math.lgamma(degree + 2) / math.log(10) + R
    return 60 + math.ceil(max(least, 0.0)) + degree + math.ceil(R)


def _first_reference(degree: int, R: Decimal) -> list[Decimal]:
    """-R cos(phi_i) with (n + 1) phi_i + R sin(phi_i) = pi i, to 30 bits, so that every machine computes the same.

    Without the second term these are the extrema of Chebyshev's polynomial. With it they are asymptotically the extrema
    of r: the zeros of a polynomial that equioscillates with the weight exp(-s) have the density (n + 1 - s) / (pi
    sqrt(R^2 - s^2)), as long as that is positive.
    """
    n, shift = degree + 1, min(float(R), 0.9 * (degree + 1))
    points = []
    for i in range(n + 1):
        low, high = 0.0, math.pi
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if n * middle + shift * math.sin(middle) < math.pi * i else (low, middle)
        points.append(-R * round(math.cos(low) * 2**30) / 2**30)
    return [-R, *points[1:-1], R]


def _rough_level(points: Sequence[Decimal]) -> float:
    """|E| of a reference in float64, within 1e-13: degrees that are far too low need no decimal arithmetic.

    The weights are divided by the largest of them in logarithms, because their products overflow.
    """
    x = np.array([float(point) for point in points])
    apart = np.abs(x[:, None] - x)
    np.fill_diagonal(apart, 1.0)
    logs = x - np.log(apart).sum(1)
    weights = np.exp(logs - logs.max())
    signs = (-1.0) ** np.arange(len(points))
    return abs(float((signs * weights).sum() / weights.sum()))


def _levelled(points: Sequence[Decimal]) -> tuple[Decimal, list[Decimal]]:
    """E and the coefficients of the polynomial with P(x_i) = (1 - (-1)^i E) exp(x_i) on a reference."""
    exponentials = [x.exp() for x in points]
    above = below = Decimal(0)
    for i, x in enumerate(points):
        weight = exponentials[i] / math.prod((x - y for j, y in enumerate(points) if j != i), start=Decimal(1))
        above += weight
        below += weight if i % 2 == 0 else -weight
    E = above / below
    # Newton's divided differences of all points except the last, where the polynomial has the correct value anyway.
    nodes = points[:-1]
    table = [(1 - E if i % 2 == 0 else 1 + E) * exponentials[i] for i in range(len(nodes))]
    for level in range(1, len(nodes)):
        for i in range(len(nodes) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - level])
    coefficients = [table[-1]]
    for i in range(len(nodes) - 2, -1, -1):  # times (s - x_i), plus the next difference
        shifted = [Decimal(0), *coefficients]
        coefficients = [a - nodes[i] * b for a, b in zip(shifted, [*coefficients, Decimal(0)], strict=True)]
        coefficients[0] += table[i]
    return E, coefficients


def _value(coefficients: Sequence[Decimal], s: Decimal) -> Decimal:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * s + coefficient
    return total


def _residual(coefficients: Sequence[Decimal], s: Decimal) -> Decimal:
    """r(s) = P(s) exp(-s) - 1."""
    return _value(coefficients, s) * (-s).exp() - 1


def _slope(coefficients: Sequence[Decimal]) -> list[Decimal]:
    """The coefficients of Q = P' - P."""
    return [p * a - b for p, (a, b) in enumerate(zip([*coefficients[1:], Decimal(0)], coefficients, strict=True), 1)]


def _separators(coefficients: Sequence[Decimal], points: Sequence[Decimal]) -> list[Decimal]:
    """Points between every two neighbouring points of the reference, at which r increases or decreases as it does
    between these two.

    Bisection towards r's zero finds such a point, because the zero itself is one; usually the midpoint is one, too.
    """
    slope, separators = _slope(coefficients), []
    for low, high in pairwise(points):
        is_negative = _residual(coefficients, low) < 0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if (_value(slope, middle) > 0) == is_negative:
                break
            low, high = (middle, high) if (_residual(coefficients, middle) < 0) == is_negative else (low, middle)
        separators.append(middle)
    return separators


def _critical(coefficients: Sequence[Decimal], separators: Sequence[Decimal], bits: int) -> list[_Interval]:
    """An interval around each of the n zeros of Q, which lie between successive separators; its width is 3 * 2^-bits
    times the distance of its two separators.
    """
    halves = [_halved(partial(_value, _slope(coefficients)), low, high, bits) for low, high in pairwise(separators)]
    return [(2 * low - high, 2 * high - low) for low, high in halves]


def _halved(function: Callable[[Decimal], Decimal], low: Decimal, high: Decimal, bits: int) -> _Interval:
    """The interval, 2^-bits as wide as the given one, in which a function changes its sign; found by bisection."""
    is_negative = function(low) < 0
    for _ in range(bits):
        middle = (low + high) / 2
        low, high = (middle, high) if (function(middle) < 0) == is_negative else (low, middle)
    return low, high


def _proved_error(coefficients: Sequence[Decimal], intervals: Sequence[_Interval], R: Decimal) -> Decimal:
    """A bound on |r| on [-R, R]; infinite unless Q, of degree n, changes its sign in each of n disjoint intervals.

    With `total` = sum_p |a_p| (p R^(p-1) + R^p), which is at least the sum of |q_p| R^p, the errors of values of P and
    Q are below `lost` = 100 (n + 2) 10^-digits total, and the errors of values of r are below exp(R) times that.
    """
    n, slope, ends = len(coefficients) - 1, _slope(coefficients), [-R, *(end for pair in intervals for end in pair), R]
    total = sum((abs(a) * (p * R ** max(p - 1, 0) + R**p) for p, a in enumerate(coefficients)), Decimal(0))
    lost = (n + 2) * total.scaleb(2 - getcontext().prec)
    values = [(_value(slope, low), _value(slope, high)) for low, high in intervals]
    change_signs = all(a * b < 0 and min(abs(a), abs(b)) > lost for a, b in values)
    if len(intervals) != n or not change_signs or any(low >= high for low, high in pairwise(ends)):
        return Decimal("Infinity")
    width = max(high - low for low, high in intervals)
    return max(abs(_residual(coefficients, end)) for end in ends) + R.exp() * (width * total + lost)


def _distance(coefficients: Sequence[Decimal], rounded: Sequence[float], R: Decimal) -> Decimal:
    """sum_p |b_p - a_p| R^p."""
    pairs = enumerate(zip(coefficients, rounded, strict=True))
    return sum((abs(Decimal(b) - a) * R**p for p, (a, b) in pairs), Decimal(0))
