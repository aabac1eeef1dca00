"""The drawings of Figures 1 to 7."""

from __future__ import annotations

import numpy as np

from separatrix.report.figures import draw
from tests.claims.cells import ran, shortened


def test_validation_curves_are_means_over_seeds_with_a_band() -> None:
    id = "selection/figure-4/lengths"
    cells = shortened(id)
    figure = draw("length_tasks", cells).figure
    named = {trace.name: trace for trace in figure.data if trace.name}
    group = [cell for cell in cells if cell.parameters["encoding"] == "fixed"]
    first = group[0].result["tasks"][0]
    losses = np.stack([cell.result["validation"][:, 0] for cell in group])
    np.testing.assert_allclose(named[f"{first}, fixed"].y, losses.mean(0))
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(bands) == 8
    assert max(bands[4].y) == losses.max()


def test_the_floor_is_drawn_at_every_threshold() -> None:
    id = "selection/figure-4/floor-of-fixed-encodings"
    drawing = draw("fixed_floor", shortened(id))
    assert drawing.columns["threshold"] == [0.18, 0.2, 0.25, 0.3, 0.4]
    assert any(set(trace.y) == {0.15} for trace in drawing.figure.data)


def test_the_population_loss_is_drawn_with_the_run_if_known() -> None:
    known, unknown = (shortened("selection/figure-1"), ran("selection/figure-1/small"))
    names = [{trace.name for trace in draw("training_loss", cells).figure.data} for cells in (known, unknown)]
    assert "population" in names[0]
    assert "population" not in names[1]


def test_a_figure_of_lengths_leaves_other_thresholds_out() -> None:
    cells = shortened("selection/figure-4/lengths")
    other_cells = shortened("selection/figure-4/floor-of-fixed-encodings")
    drawn, with_others = (draw("length_tasks", drawn_cells).columns for drawn_cells in (cells, (*cells, *other_cells)))
    assert len(drawn) == 9
    assert with_others.keys() == drawn.keys()
    shared = [cell for cell in other_cells if cell.parameters["threshold"] == cells[0].parameters["threshold"]]
    assert with_others == draw("length_tasks", (*cells, *shared)).columns
