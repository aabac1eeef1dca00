"""Every bound on |exp - P| against a computation with 50 digits."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.attention.near_linear.approximation.remainder import (
    chebyshev,
    taylor,
    taylor_factor,
    taylor_factor_of_number,
)

mpmath.mp.dps = 50


def worst(polynomial, radius):
    """The largest |exp(s) - P(s)| / s^moment on a fine grid of [-radius, radius] and its ends."""
    largest = mpmath.mpf(0)
    for i in range(1, 201):
        for s in (mpmath.mpf(radius) * i / 200, -mpmath.mpf(radius) * i / 200):
            value = mpmath.polyval([mpmath.mpf(c) for c in reversed(polynomial.coefficients)], s)
            largest = max(largest, abs(mpmath.exp(s) - value) / s**polynomial.moment)
    return largest


@given(degree=st.integers(0, 30), radius=st.floats(1e-6, 40.0))
def test_taylor_factor_is_the_tail(degree, radius):
    moment = degree - degree % 2
    bound = mpmath.mpf(taylor_factor(degree, moment, torch.tensor([radius], dtype=torch.float64), radius).item())
    tail = mpmath.nsum(lambda p: mpmath.mpf(radius) ** (p - moment) / mpmath.factorial(p), [degree + 1, mpmath.inf])
    assert tail <= bound <= tail * (1 + mpmath.mpf(10) ** -8)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 7, 20, 61, 120])
def test_taylor_factor_of_a_number_is_that_of_a_tensor(degree):
    """The factors are equal up to fused multiply-adds; for a tensor, the largest radius decides the number of terms."""
    radii = torch.cat([torch.zeros(1), torch.logspace(-6, math.log10(50.0), 150)]).to(torch.float64)
    for moment in {0, degree // 2, degree - degree % 2, degree}:
        numbers = radii.new_tensor([taylor_factor_of_number(degree, moment, R) for R in radii.tolist()])
        one_by_one = torch.cat([taylor_factor(degree, moment, R.reshape(1), R.item()) for R in radii])
        torch.testing.assert_close(one_by_one, numbers, rtol=1e-13, atol=0)
        torch.testing.assert_close(taylor_factor(degree, moment, radii, 50.0), numbers, rtol=1e-8, atol=0)


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("radius", [0.01, 0.7, 3.0, 12.0])
def test_taylor_bounds_the_error(degree, radius):
    """The certificate counts the rounding of the coefficients as rounding: 1e-15 exp(R) in total."""
    polynomial = taylor(degree)
    bound = polynomial.factors(torch.tensor([radius], dtype=torch.float64), radius).item()
    slack = 1e-15 * math.exp(radius) / (radius / 200) ** polynomial.moment
    assert worst(polynomial, radius) <= bound + slack


@pytest.mark.parametrize("radius", [0.25, 1.0, 4.0, 11.0, 30.0])
@pytest.mark.parametrize(("degree", "moment"), [(0, 0), (3, 0), (4, 2), (9, 0), (9, 6), (20, 4), (40, 0)])
def test_chebyshev_bounds_the_error(degree, moment, radius):
    polynomial = chebyshev(degree, moment, radius)
    assert polynomial.degree == degree
    found = worst(polynomial, radius)
    head = 1e-15 * math.exp(radius) / (radius / 200) ** moment if moment else 0
    assert found <= polynomial.factor + head
    if moment == 0 and degree <= 20 and found > 1e-9:  # beyond this degree the rounding of the coefficients dominates
        assert polynomial.factor <= 3 * found


def test_magnitude():
    polynomial = chebyshev(5, 0, 2.0)
    radii = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    expected = sum(abs(c) * radii**p for p, c in enumerate(polynomial.coefficients))
    assert torch.allclose(polynomial.magnitude(radii), expected, rtol=1e-14)
