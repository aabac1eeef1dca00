"""Figures drawn from the cells of a claim, and the parts of every figure: traces, axes, a sentence and data."""

from __future__ import annotations

import csv
import io
import json
from functools import cache

from separatrix.claims import ledger
from separatrix.report.figures import draw
from separatrix.report.theme import THEME, Drawing
from tests.claims.cells import cells_of, ran, shortened


@cache
def drawn(name: str, id: str) -> Drawing:
    """A figure, drawn from the cells of a claim; those of the full profile run with few steps."""
    cells_of(id)
    return draw(name, ran(id) if ledger._REGISTRY[id].profile == "quick" else shortened(id))


def check_figure(drawing: Drawing, *, y_title: bool = True, edges: bool = True) -> None:
    """Assert that a figure has the theme, axis titles, and visible content in every trace.

    Without `y_title`, the names of rows replace the title of the y axis. Without `edges`, a curve may be empty because
    its level is never reached.
    """
    figure = drawing.figure
    content = json.loads(figure.to_json())
    assert figure.layout.template == THEME
    assert "width" not in content["layout"], "the width of a figure is that of the page"
    assert any(axis.title.text for axis in figure.select_xaxes())
    assert figure.data
    assert figure.layout.yaxis.title.text if y_title else figure.layout.yaxis.ticktext
    for trace in figure.data:
        assert len(trace.x) > 0
        assert trace.type == "heatmap" or len(trace.x) == len(trace.y)
        assert not edges or any(value is not None for value in trace.y)


def check_sentence(drawing: Drawing) -> None:
    """Assert that the text alternative of a figure is a sentence of moderate length."""
    assert drawing.text[0].isupper()
    assert drawing.text.endswith(".")
    assert 40 < len(drawing.text) < 300
    assert "<" not in drawing.text


def check_data(drawing: Drawing) -> None:
    """Assert that the columns of a figure have equal lengths and can be written as CSV."""
    (length,) = {len(column) for column in drawing.columns.values()}
    rows = list(csv.reader(io.StringIO(drawing.csv())))
    assert rows[0] == list(drawing.columns)
    assert len(rows) == length + 1 > 3
