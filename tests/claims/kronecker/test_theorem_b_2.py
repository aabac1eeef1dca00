"""Tests of Theorem B.2 in addition to the tests of all claims."""

from __future__ import annotations

import math

import pytest

from separatrix.claims.kronecker import theorem_b_2
from separatrix.hardness.exponents import least_degree
from tests.claims.cells import ran


def test_the_curves_of_the_constant_gap_keep_their_ratio() -> None:
    """The limit is 16 ln n = B^3."""
    rows = [cell.result for cell in ran("kronecker/theorem-b.2") if "cube_root" in cell.result]
    assert rows[-1]["constant_exact"] / rows[-1]["cube_root"] == pytest.approx(16 ** (1 / 3), rel=1e-3)
    assert all(row["constant_exact"] <= row["constant_rule"] for row in rows)


def test_the_rank_border_is_a_border() -> None:
    log_n = 20 * math.log(2)
    border = theorem_b_2.rank_border(20, 56, 0.5, -log_n)
    for bound, below in ((border * 0.999, True), (border * 1.001, False)):
        degree = least_degree(0.5 * bound**3, -log_n)
        assert (math.comb(56 + degree, degree) <= 2**40) == below
