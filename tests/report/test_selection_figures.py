"""The figures of the claims about selection, those of the full profile drawn from runs of few steps."""

from __future__ import annotations

import csv
import io
import json
from functools import cache

import numpy as np
import pytest

from separatrix.claims.ledger import Found
from separatrix.report.figures import draw
from separatrix.report.theme import THEME, Drawing
from tests.claims.selection_cells import OURS, QUICK, ran, shortened

SHOWN = [(name, id) for id, claim in sorted(OURS.items()) for name in claim.figures]


@cache
def drawn(name: str, id: str) -> Drawing:
    return draw(name, ran(id) if id in QUICK else shortened(id))


@pytest.mark.parametrize(("name", "id"), SHOWN)
def test_a_figure_has_traces_axes_words_and_data(name: str, id: str) -> None:
    drawing = drawn(name, id)
    content = json.loads(drawing.figure.to_json())
    assert drawing.figure.layout.template == THEME
    assert "width" not in content["layout"]
    assert any(axis.title.text for axis in drawing.figure.select_xaxes())
    assert content["layout"]["yaxis"]["title"]["text"]
    for trace in drawing.figure.data:
        assert len(trace.x) > 0
        assert any(value is not None for value in trace.y)
    assert drawing.text[0].isupper()
    assert drawing.text.endswith(".")
    assert 40 < len(drawing.text) < 300
    assert "<" not in drawing.text
    (length,) = {len(column) for column in drawing.columns.values()}
    rows = list(csv.reader(io.StringIO(drawing.csv())))
    assert rows[0] == list(drawing.columns)
    assert len(rows) == length + 1 > 3


def test_the_slider_shows_one_step_at_a_time() -> None:
    id = "selection/figure-8/first-1-000-steps"
    figure = drawn("weight_heat_maps", id).figure
    (slider,) = figure.layout.sliders
    steps = ran(id)[0].result["step"]
    assert [mark.label for mark in slider.steps] == [f"{step:,}" for step in steps]
    for at, mark in enumerate(slider.steps):
        shown = [index for index, seen in enumerate(mark.args[1]) if seen]
        assert shown == [2 * at, 2 * at + 1]
    assert [trace.visible for trace in figure.data] == [False] * 6 + [True] * 2
    W = ran(id)[0].result["W"]
    np.testing.assert_allclose(np.array(figure.data[6].z), W[-1], atol=1e-4)


def test_validation_curves_are_means_over_seeds_with_a_band() -> None:
    id = "selection/figure-4/lengths"
    found = shortened(id)
    figure = draw("length_tasks", found).figure
    named = {trace.name: trace for trace in figure.data if trace.name}
    group = [one for one in found if one.parameters["encoding"] == "fixed"]
    first = group[0].result["tasks"][0]
    losses = np.stack([one.result["validation"][:, 0] for one in group])
    np.testing.assert_allclose(named[f"{first}, fixed"].y, losses.mean(0))
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(bands) == 8
    assert max(bands[4].y) == losses.max()


def test_the_floor_is_drawn_at_every_threshold() -> None:
    id = "selection/figure-4/floor-of-fixed-encodings"
    drawing = draw("fixed_floor", shortened(id))
    assert drawing.columns["threshold"] == [0.18, 0.2, 0.25, 0.3, 0.4]
    assert any(set(trace.y) == {0.15} for trace in drawing.figure.data)


def test_the_population_is_drawn_beside_the_run_where_it_is_known() -> None:
    known, unknown = (shortened("selection/figure-1"), ran("selection/figure-1/small"))
    names = [{trace.name for trace in draw("training_loss", found).figure.data} for found in (known, unknown)]
    assert "population" in names[0]
    assert "population" not in names[1]


def test_a_figure_of_lengths_leaves_other_thresholds_out() -> None:
    found: list[Found] = shortened("selection/figure-4/floor-of-fixed-encodings")
    assert len(draw("length_tasks", found).columns) == 9
