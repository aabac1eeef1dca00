"""The worst case of the polynomial method: its degree, its exponent, and the limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath
import pytest

from separatrix.attention.near_linear.worst_case import worst_case_degree
from separatrix.hardness import exponents


def test_the_page_of_the_derivation_has_the_numbers_that_are_computed(root: Path) -> None:
    text = (root / "docs" / "derivations" / "threshold.md").read_text("utf-8")
    for rho in (1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0):
        assert f"| {exponents.limit_exponent(rho):.3f} " in text
    for order in (2, 3, 4, 5):
        assert f"| {exponents.limit_border(order):.4f} " in text
    u = 2.2334230637
    assert math.sqrt(1 + u * u) - u * math.asinh(u) + 1 == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0, 12.5])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_the_degree_is_the_least_whose_tail_keeps_the_tolerance(radius: float, tolerance: float) -> None:
    """By mpmath, 2 sum_{j > g} I_j(R) <= eps exp(-R) / (2 + eps) holds at g, and not at g - 1."""
    degree = exponents.least_degree(radius, math.log(tolerance))
    most = tolerance * mpmath.exp(-radius) / (2 + tolerance)

    def tail(g: int) -> Any:
        return 2 * mpmath.fsum(mpmath.besseli(j, radius) for j in range(g + 1, g + 80))

    assert tail(degree) <= most < tail(degree - 1)
    assert degree <= math.ceil(exponents.chernoff_degree(radius, math.log(tolerance)))
    assert degree <= (worst_case_degree(radius, tolerance) or math.inf)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0])
def test_long_exponents_tend_to_their_limit(rho: float) -> None:
    limit = exponents.limit_exponent(rho)
    apart = [abs(exponents.long_exponent(10.0**p, 3, (rho * 10.0**p) ** (1 / 3)) - limit) for p in (2, 4, 8, 16)]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-12


@pytest.mark.parametrize("order", [2, 3, 4])
def test_at_the_border_the_limit_is_the_order(order: int) -> None:
    assert exponents.limit_exponent(exponents.limit_border(order) ** order) == pytest.approx(order, abs=1e-9)
