"""Tests of Theorem 1.3 in addition to the tests of all claims."""

from __future__ import annotations

from tests.claims.cells import ran


def test_the_polynomial_is_cheaper_on_one_side_of_the_border() -> None:
    for cell in ran("kronecker/theorem-1.3"):
        result = cell.result
        for ratio, exponent in zip(cell.parameters["ratios"], result["polynomial_exponent"], strict=True):
            assert (exponent < result["exact_exponent"]) == (ratio <= result["border"])
