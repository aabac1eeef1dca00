"""The figures of Figures 3, 4, 5 and 7."""

from __future__ import annotations

import pytest

from separatrix.separation import wilson
from tests.claims.cells import ran
from tests.report.drawings.drawn import drawn


def panels(figure: str) -> list[dict[str, object]]:
    """The traces of a figure by panel, then by name."""
    by_panel: dict[str, dict[str, object]] = {}
    for trace in drawn(f"figure_{figure}", f"separation/figure-{figure}").figure.data:
        by_panel.setdefault(trace.xaxis, {})[trace.name] = trace
    return list(by_panel.values())


def test_each_panel_has_the_exact_curve_and_the_simulated_points() -> None:
    printed = [cell for cell in ran("separation/figure-7") if cell.parameters["reading"] == "as printed"]
    traces = panels("7")
    assert len(traces) == len(printed) == 5
    for cell, traced in zip(printed, traces, strict=True):
        exact = traced["exact"]
        assert list(exact.x) == cell.result["x"]
        assert list(exact.y) == cell.result["low"]
        points = traced["simulated, 100 trials, 95% intervals"]
        estimates = [wilson(hits, 100) for hits in cell.result["hits"]]
        assert list(points.y) == [estimate.value for estimate in estimates]
        low = [y - down for y, down in zip(points.y, points.error_y.arrayminus, strict=True)]
        high = [y + up for y, up in zip(points.y, points.error_y.array, strict=True)]
        assert low == pytest.approx([estimate.low for estimate in estimates], abs=1e-12)
        assert high == pytest.approx([estimate.high for estimate in estimates], abs=1e-12)


def test_the_other_reading_is_drawn_where_the_paper_contradicts_itself() -> None:
    assert ["exact, with d = 11" in panel for panel in panels("7")] == [False, False, False, True, True]


def test_the_stated_range_of_an_axis_is_shaded() -> None:
    a, b, c, d, e, f = ([*panel["this axis within its stated range"].x] for panel in panels("4"))
    assert (min(a), max(a)) == (200, 1000)
    assert (min(b), max(b)) == (4, 66)
    assert (min(c), max(c)) == (10, 80)  # m > log(200 / 0.01) = 9.9
    assert min(d) == pytest.approx(1.0, abs=0.036)
    assert min(d) >= 1  # Theorem E.4: a1 >= 1
    assert (min(e), max(e)) == (0.01, 0.09)
    assert 0.795 < min(f) < 0.8 < max(f) < 0.805  # b + c = 1 only at c = 0.8


def test_every_point_of_the_sweeps_is_handed_out() -> None:
    columns = drawn("figure_4", "separation/figure-4").columns
    assert len(columns["x"]) == 81 + 6 + 80 + 81 + 80 + 81
    assert sum(columns["inside"][at] for at in range(len(columns["x"])) if columns["panel"][at] == "4f") == 1
