"""What every file of drawings passes: each figure has traces, axes, words and data.

A subclass names the module, and for each of its figures a claim that names it; the figure is drawn from that claim's
cells.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import ClassVar

import pytest

from separatrix.claims import ledger
from separatrix.claims.ledger import Found
from separatrix.report.figures import FIGURES, draw
from separatrix.report.theme import THEME, Drawing
from tests.claims.cells import cells_of, ran, shortened


def found_of(id: str) -> Sequence[Found]:
    """What the cells of a claim give; those of the full profile with few steps."""
    cells_of(id)
    return ran(id) if ledger._REGISTRY[id].profile == "quick" else shortened(id)


@cache
def drawn(name: str, id: str) -> Drawing:
    """A figure, drawn from the cells of a claim."""
    return draw(name, found_of(id))


class DrawingContract:
    """The tests of one file of drawings. `shown` pairs every figure with the whole ids of some claims that name it."""

    module: ClassVar[ModuleType]
    shown: ClassVar[Sequence[tuple[str, str]]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if {"name", "id"} <= set(metafunc.fixturenames):
            metafunc.parametrize(("name", "id"), self.shown)

    def drawing(self, name: str, id: str) -> Drawing:
        return drawn(name, id)

    def test_every_figure_of_the_file_is_shown(self) -> None:
        ours = {name for name, function in FIGURES.items() if function.__module__ == self.module.__name__}
        assert {name for name, _ in self.shown} == ours
        for name, id in self.shown:
            cells_of(id)
            assert name in ledger._REGISTRY[id].figures

    def test_it_has_traces_axes_and_the_theme(self, name: str, id: str) -> None:
        figure = self.drawing(name, id).figure
        content = json.loads(figure.to_json())
        assert figure.layout.template == THEME
        assert "width" not in content["layout"]
        assert any(axis.title.text for axis in figure.select_xaxes())
        assert content["layout"]["yaxis"]["title"]["text"]
        assert figure.data
        for trace in figure.data:
            assert len(trace.x) > 0
            assert any(value is not None for value in trace.y)

    def test_it_says_in_one_sentence_what_it_shows(self, name: str, id: str) -> None:
        text = self.drawing(name, id).text
        assert text[0].isupper()
        assert text.endswith(".")
        assert 40 < len(text) < 300
        assert "<" not in text

    def test_it_hands_out_its_data(self, name: str, id: str) -> None:
        drawing = self.drawing(name, id)
        (length,) = {len(column) for column in drawing.columns.values()}
        rows = list(csv.reader(io.StringIO(drawing.csv())))
        assert rows[0] == list(drawing.columns)
        assert len(rows) == length + 1 > 3
