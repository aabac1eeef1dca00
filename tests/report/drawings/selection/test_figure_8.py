"""The figures of Figure 8."""

from __future__ import annotations

import numpy as np

from tests.claims.cells import ran
from tests.report.drawings.drawn import drawn


def test_the_slider_shows_one_step_at_a_time() -> None:
    id = "selection/figure-8/first-1-000-steps"
    figure = drawn("weight_heat_maps", id).figure
    (slider,) = figure.layout.sliders
    steps = ran(id)[0].result["step"]
    assert [mark.label for mark in slider.steps] == [f"{step:,}" for step in steps]
    for at, mark in enumerate(slider.steps):
        visible = [index for index, seen in enumerate(mark.args[1]) if seen]
        assert visible == [2 * at, 2 * at + 1]
    assert [trace.visible for trace in figure.data] == [False] * 6 + [True] * 2
    W = ran(id)[0].result["W"]
    np.testing.assert_allclose(np.array(figure.data[6].z), W[-1], atol=1e-4)
