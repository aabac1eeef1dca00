"""The figures of the claims: each exists. Those of Alman and Song's lemmas and costs say what they show in words, and
hand out their data; the other papers' have tests of their own.
"""

from __future__ import annotations

import csv
import io
import json
from functools import cache

import pytest

from separatrix.claims import ledger
from separatrix.claims.ledger import Found
from separatrix.errors import ArgumentError
from separatrix.lab.registry import named
from separatrix.report.drawings import kronecker_cost, kronecker_lemmas
from separatrix.report.figures import FIGURES, draw
from separatrix.report.theme import THEME, Drawing
from separatrix.studies import load

load()
CLAIMS = dict(ledger._REGISTRY)
MODULES = {kronecker_cost.__name__, kronecker_lemmas.__name__}
SHOWN = [
    (name, id)
    for id, claim in sorted(CLAIMS.items())
    for name in claim.figures
    if name in FIGURES and FIGURES[name].__module__ in MODULES
]


@cache
def drawn(name: str, id: str) -> Drawing:
    cells = list(CLAIMS[id].cells())
    found = [Found(c.arguments, c.seed, named(c.experiment)(seed=c.seed, **c.arguments), 0.5) for c in cells]
    return draw(name, found)


def test_every_figure_that_a_claim_names_exists_and_every_one_is_named() -> None:
    assert {name for claim in CLAIMS.values() for name in claim.figures} == set(FIGURES)


def test_an_unknown_figure_is_an_error_that_names_the_others() -> None:
    with pytest.raises(ArgumentError, match=r"sharp_rank.*got nothing"):
        draw("nothing", [])


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_has_traces_axes_and_the_theme(name: str, id: str) -> None:
    figure = drawn(name, id).figure
    content = json.loads(figure.to_json())
    assert content["data"]
    assert figure.layout.template == THEME
    assert "width" not in content["layout"]
    assert any(axis.title.text for axis in figure.select_xaxes())
    assert content["layout"]["yaxis"]["title"]["text"]
    for trace in figure.data:
        assert len(trace.x) > 0
        assert any(value is not None for value in trace.y)


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_says_in_one_sentence_what_it_shows(name: str, id: str) -> None:
    text = drawn(name, id).text
    assert text[0].isupper()
    assert text.endswith(".")
    assert 40 < len(text) < 300
    assert "<" not in text


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_hands_out_its_data(name: str, id: str) -> None:
    drawing = drawn(name, id)
    (length,) = {len(column) for column in drawing.columns.values()}
    rows = list(csv.reader(io.StringIO(drawing.csv())))
    assert rows[0] == list(drawing.columns)
    assert len(rows) == length + 1 > 3
    assert rows[1] == ["" if column[0] is None else str(column[0]) for column in drawing.columns.values()]


def test_seconds_are_drawn_beside_the_flops_where_there_are_any() -> None:
    drawing = drawn("linear_growth", "kronecker/theorem-1.4/linear-growth")
    timed = [trace for trace in drawing.figure.data if trace.yaxis == "y2"]
    assert len(timed) == 6
    assert {value for trace in timed for value in trace.y} == {0.5}
    assert [len(trace.x) for trace in timed] == [8, 8, 8, 4, 8, 1]
    times = [
        (method, seconds) for method, seconds in zip(*(drawing.columns[c] for c in ("method", "seconds")), strict=True)
    ]
    assert times.count(("near-linear", 0.5)) == 24
    assert times.count(("exact", 0.5)) == 13
    assert times.count(("near-linear", None)) == 21


def test_the_phase_diagram_shows_the_cheaper_algorithm() -> None:
    drawing = drawn("threshold_phase_diagram", "kronecker/theorem-1.3")
    first = drawing.figure.data[0]
    columns = drawing.columns
    for at in range(len(first.x)):
        least = min(columns["polynomial_exponent"][at], columns["exact_exponent"][at])
        assert (columns["order"][at], columns["log2_n"][at], columns["ratio"][at]) == (2, first.y[0], first.x[at])
        assert first.z[0][at] == least
