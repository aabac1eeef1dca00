"""Tests of Figures 3, 4, 5 and 7 in addition to the tests of all claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.claims.separation import figures_3_to_7
from tests.claims.cells import ran
from tests.claims.changes import FAILS, UNDECIDED, changed, judge


@pytest.mark.parametrize(
    "id", ["separation/figure-3", "separation/figure-4", "separation/figure-5", "separation/figure-7"]
)
def test_a_simulation_that_does_not_fit_the_exact_probability_is_found(id: str) -> None:
    hits = [None if hit is None else 0 for hit in ran(id)[0].result["hits"]]
    assert judge(id, changed(ran(id), hits=hits)) is FAILS


@pytest.mark.parametrize("id", ["separation/figure-4", "separation/figure-5", "separation/figure-7"])
def test_settings_within_all_hypotheses_would_show_no_slip(id: str) -> None:
    results = [replace(cell, result={**cell.result, "broken": [[] for _ in cell.result["broken"]]}) for cell in ran(id)]
    assert judge(id, results) is UNDECIDED


def test_the_probability_of_a_count_is_the_binomial_tail() -> None:
    assert figures_3_to_7.chance(2, 4, 0.5, 0.5) == 1.0
    assert figures_3_to_7.chance(1, 4, 0.5, 0.5) == pytest.approx(5 / 16, rel=1e-12)
    assert figures_3_to_7.chance(4, 4, 0.2, 0.5) == pytest.approx(1 / 16, rel=1e-12)
    assert figures_3_to_7.chance(1, 4, 0.5, 0.9) == pytest.approx(5 / 16, rel=1e-12)
    assert figures_3_to_7.chance(1, 4, 0.0, 0.0) == 0.0
    assert figures_3_to_7.chance(3, 4, 1.0, 1.0) == 0.0
    assert figures_3_to_7.chance(0, 4, 0.0, 0.0) == 1.0
