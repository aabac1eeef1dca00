"""Minimax polynomials of exp: their proved errors against mpmath, their optimality, and unproved cases."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from itertools import pairwise

import mpmath
import pytest

from separatrix.attention.near_linear.approximation import minimax as module
from separatrix.attention.near_linear.approximation.minimax import minimax

SAMPLES = 2000


def residuals(coefficients, radius):
    """P(s) exp(-s) - 1 to 60 digits, at points of [-radius, radius] that are dense at both ends."""
    with mpmath.workdps(60):
        series = [mpmath.mpf(a) for a in reversed(coefficients)]
        points = [-mpmath.mpf(radius) * mpmath.cos(mpmath.pi * i / SAMPLES) for i in range(SAMPLES + 1)]
        return points, [mpmath.polyval(series, s) * mpmath.exp(-s) - 1 for s in points]


CASES = [(1, 0.1), (1, 3.0), (2, 0.5), (3, 1.0), (4, 1.0), (5, 2.0), (7, 4.0), (9, 4.0), (8, 0.25), (14, 8.0), (6, 8.0)]


@pytest.mark.parametrize(("degree", "radius"), CASES)
def test_the_error_is_a_bound_and_is_attained(degree, radius):
    found = minimax(degree, radius)
    _, values = residuals(found.coefficients, radius)
    largest = max(map(abs, values))
    assert largest <= found.error <= 1.001 * largest
    assert found.degree == degree


@pytest.mark.parametrize(("degree", "radius"), CASES)
def test_no_polynomial_of_the_degree_has_a_smaller_error(degree, radius):
    """By de la Vallee Poussin: at n + 2 points the signs alternate, and the errors are within 1% of the largest."""
    found = minimax(degree, radius)
    _, values = residuals(found.coefficients, radius)
    signs = [math.copysign(1, value) for value in values if abs(value) > 0.99 * found.error]
    assert 1 + sum(a != b for a, b in pairwise(signs)) == degree + 2


@pytest.mark.parametrize(("degree", "radius"), CASES)
def test_none_says_that_the_degree_is_too_low(degree, radius):
    least = minimax(degree, radius).error
    assert minimax(degree, radius, 1.001 * least) is not None
    assert minimax(degree, radius, 0.99 * least) is None


@pytest.mark.parametrize(("degree", "radius"), [(20, 1.0), (30, 8.0), (24, 4.0)])
def test_coefficients_in_float64_are_part_of_the_error(degree, radius):
    """At these degrees, higher than any plan needs, the rounding of the coefficients dominates the error."""
    found = minimax(degree, radius)
    _, values = residuals(found.coefficients, radius)
    assert max(map(abs, values)) <= found.error <= 2.0**-52 * math.exp(2 * radius)


@pytest.mark.parametrize("radius", [0.0, 5e-324, 1e-12, 2.0**-20])
def test_tiny_intervals_have_the_polynomial_of_a_larger_one(radius):
    found = minimax(1, radius)
    assert found.radius == 2.0**-20
    assert max(map(abs, residuals(found.coefficients, found.radius)[1])) <= found.error < 1e-12


def test_the_decimal_context_of_the_caller_does_not_matter():
    expected = minimax(4, 1.5)
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.Emax = 5, decimal.ROUND_UP, 9
        assert minimax.__wrapped__(4, 1.5) == expected


def proved(coefficients, intervals, R):
    with decimal.localcontext() as context:
        context.prec = 80
        return module._proved_error([Decimal(a) for a in coefficients], intervals, Decimal(R))


def test_an_error_is_proved_by_all_zeros_of_the_derivative_alone():
    """1 + s + s^2 / 2 has a double zero of its derivative at 0 only: no sign change. 1 + s - s^2 / 2 has two."""
    around = (Decimal("-0.001"), Decimal("0.001"))
    assert proved((1, 1, 0.5), [around], 1) == Decimal("Infinity")
    # P = 2 s^2 + 1: Q = -2 s^2 + 4 s - 1 vanishes at 1 - sqrt(1/2) and 1 + sqrt(1/2).
    low, high = (
        (Decimal(at) - Decimal("1e-9"), Decimal(at) + Decimal("1e-9")) for at in ("0.2928932188", "1.7071067812")
    )
    largest = max(abs((2 * s * s + 1) * math.exp(-s) - 1) for s in (-2.0, 2.0, float(low[0]), float(high[0])))
    assert largest < proved((1, 0, 2), [low, high], 2) < largest + 1e-5
    assert proved((1, 0, 2), [low], 2) == Decimal("Infinity")  # one zero is missing
    assert proved((1, 0, 2), [high, low], 2) == Decimal("Infinity")  # not in order
    assert proved((1, 0, 2), [low, low], 2) == Decimal("Infinity")  # twice the same
    assert proved((1, 0, 2), [low, high], 1) == Decimal("Infinity")  # beyond the interval
    assert proved((1, 0, 2), [low, around], 2) == Decimal("Infinity")  # one of the intervals has no zero


def test_signs_below_the_digits_of_the_arithmetic_prove_nothing():
    wide = [(Decimal("0.29"), Decimal("0.30")), (Decimal("1.70"), Decimal("1.71"))]
    assert proved((1, 0, 2), wide, 2).is_finite()
    with decimal.localcontext() as context:
        context.prec = 3
        assert module._proved_error([Decimal(1), Decimal(0), Decimal(2)], wide, Decimal(2)) == Decimal("Infinity")
