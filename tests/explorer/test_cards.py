"""Cards: the initial content of a figure."""

from __future__ import annotations

import json

import plotly.graph_objects as go

from separatrix.errors import ArgumentError
from separatrix.explorer.cards import figure_card
from separatrix.report.theme import Drawing


def drawing() -> Drawing:
    return Drawing(go.Figure(go.Scatter(x=[1, 2], y=[3, 4])), "A line.", {"x": [1, 2], "y": [3, 4]})


def refused() -> Drawing:
    raise ArgumentError("d", expected="at most 12", got=13)


def test_a_card_begins_with_the_outline_of_its_first_figure() -> None:
    text = json.dumps(figure_card("one", title="One", height=300, first=drawing).to_plotly_json(), default=_plain)
    assert "data:image/svg+xml;base64," in text
    assert '"data": []' in text


def test_a_card_begins_empty_where_the_first_figure_cannot_be_drawn() -> None:
    for first in (lambda: None, refused):
        text = json.dumps(figure_card("one", title="One", height=300, first=first).to_plotly_json(), default=_plain)
        assert "data:image/svg" not in text
        assert '"data": []' in text


def _plain(one: object) -> object:
    return one.to_plotly_json()
