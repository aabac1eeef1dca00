"""The figures of Deng, Song, Yuan and Zhou's paper show what the cells hold, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from functools import cache

import pytest

from separatrix.claims import ledger, load
from separatrix.claims.ledger import Found
from separatrix.claims.separation.figures import panel as sweep
from separatrix.claims.separation.tau import success_by_tau
from separatrix.lab.cell import Cell
from separatrix.lab.registry import named
from separatrix.report.drawings import separation_figures, separation_growth, separation_lemmas
from separatrix.report.figures import FIGURES, draw
from separatrix.report.theme import THEME, Drawing
from separatrix.separation import wilson

load("separation")


SHOWN = [
    ("entry_bounds", "lemma-d.3"),
    ("entry_bounds", "lemma-e.1"),
    ("entry_bounds", "lemma-f.14"),
    ("failure_of_the_parts", "theorem-6.2"),
    ("failure_of_the_parts", "theorem-d.5"),
    ("failure_of_the_parts", "theorem-e.4"),
    ("failure_of_the_parts", "theorem-f.5"),
    ("figure_3", "figure-3"),
    ("figure_4", "figure-4"),
    ("figure_5", "figure-5"),
    ("figure_7", "figure-7"),
    ("regression_failures", "lemma-5.2"),
    ("regression_sums", "lemma-4.1"),
    ("row_chances", "lemma-d.4"),
    ("row_chances", "lemma-d.8"),
    ("row_chances", "lemma-e.3"),
    ("row_chances", "lemma-f.4"),
    ("success_along_paths", "theorem-6.2/paths"),
    ("success_along_paths", "theorem-e.4/paths"),
    ("success_along_paths", "theorem-f.5/paths"),
    ("success_by_tau", "figure-3/tau"),
]
COARSE: dict[str, list[Cell]] = {
    "figure-3": [sweep.cell(seed=1, name=name, reading="as printed", every=40, simulated=2) for name in ("3a", "3b")],
    "figure-3/tau": [success_by_tau.cell(seed=0, n=n, taus=["0.1", "0.3", "0.6"]) for n in (30, 50)],
}
"""Fewer points than the claims have, where these take seconds."""


@cache
def found(id: str) -> tuple[Found, ...]:
    cells = COARSE.get(id) or ledger._REGISTRY[f"separation/{id}"].cells()
    return tuple(Found(c.arguments, c.seed, named(c.experiment)(seed=c.seed, **c.arguments)) for c in cells)


def drawn(name: str, id: str) -> Drawing:
    return draw(name, found(id))


def test_every_figure_of_the_paper_is_looked_at() -> None:
    ours = {module.__name__ for module in (separation_figures, separation_growth, separation_lemmas)}
    assert {name for name, _ in SHOWN} == {name for name, one in FIGURES.items() if one.__module__ in ours}
    for name, id in SHOWN:
        assert name in ledger._REGISTRY[f"separation/{id}"].figures


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_has_traces_axes_and_the_theme(name: str, id: str) -> None:
    figure = drawn(name, id).figure
    content = json.loads(figure.to_json())
    assert figure.layout.template == THEME
    assert "width" not in content["layout"]
    assert any(axis.title.text for axis in figure.select_xaxes())
    assert content["layout"]["yaxis"]["title"]["text"]
    assert figure.data
    for trace in figure.data:
        assert len(trace.x) > 0
        assert any(value is not None for value in trace.y)


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_says_in_one_sentence_what_it_shows_and_hands_out_its_data(name: str, id: str) -> None:
    drawing = drawn(name, id)
    assert drawing.text[0].isupper()
    assert drawing.text.endswith(".")
    assert 40 < len(drawing.text) < 300
    assert "<" not in drawing.text
    (length,) = {len(column) for column in drawing.columns.values()}
    rows = list(csv.reader(io.StringIO(drawing.csv())))
    assert rows[0] == list(drawing.columns)
    assert len(rows) == length + 1 > 3


def panels(figure: str) -> list[dict[str, object]]:
    """The traces of a figure by panel, then by name."""
    shown: dict[str, dict[str, object]] = {}
    for trace in drawn(f"figure_{figure}", f"figure-{figure}").figure.data:
        shown.setdefault(trace.xaxis, {})[trace.name] = trace
    return list(shown.values())


def test_each_panel_has_the_exact_curve_and_the_simulated_points() -> None:
    printed = [one for one in found("figure-7") if one.parameters["reading"] == "as printed"]
    traces = panels("7")
    assert len(traces) == len(printed) == 5
    for one, panel in zip(printed, traces, strict=True):
        exact = panel["exact"]
        assert list(exact.x) == one.result["x"]
        assert list(exact.y) == one.result["low"]
        points = panel["simulated, 100 trials, 95% intervals"]
        estimates = [wilson(hits, 100) for hits in one.result["hits"]]
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
    assert 0.795 < min(f) < 0.8 < max(f) < 0.805  # b + c = 1 at c = 0.8 alone


def test_every_point_of_the_sweeps_is_handed_out() -> None:
    columns = drawn("figure_4", "figure-4").columns
    assert len(columns["x"]) == 81 + 6 + 80 + 81 + 80 + 81
    assert sum(columns["inside"][at] for at in range(len(columns["x"])) if columns["panel"][at] == "4f") == 1


def test_paths_are_solid_where_the_theorem_allows_them() -> None:
    shown = {trace.name: trace.line.dash for trace in drawn("success_along_paths", "theorem-6.2/paths").figure.data}
    allowed = {name for name, dash in shown.items() if dash == "solid"}
    assert allowed == {f"g = n<sup>{x}</sup>, allowed" for x in ("0.03", "0.1", "0.5")}
    assert len(shown) == 6


def test_entries_lie_on_their_side_of_the_bound() -> None:
    columns = drawn("entry_bounds", "lemma-d.3").columns
    for relation, ratio in zip(columns["relation"], columns["ratio"], strict=True):
        assert isinstance(ratio, float)
        assert {"=": abs(ratio - 1) < 1e-12, "<=": ratio < 1 + 1e-12, ">=": ratio > 1 - 1e-12}[str(relation)]


def test_a_count_of_entries_has_no_ratio_and_no_row() -> None:
    parts = set(drawn("entry_bounds", "lemma-e.1").columns["part"])
    assert {"1a", "1b, from above", "4, far"} <= parts
    assert not {"1b, near", "2, far"} & parts


def test_a_rare_row_is_drawn_below_what_is_allowed_in_the_end() -> None:
    drawing = drawn("row_chances", "lemma-d.12")
    allowed = drawing.figure.data[-1]
    assert allowed.name == "δ / n"
    limit = dict(zip(allowed.x, allowed.y, strict=True))
    for trace in drawing.figure.data[:-1]:
        assert trace.y[-1] < limit[trace.x[-1]]
