"""A table of names and numbers with a column for each setting."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from separatrix.explorer.attributes import element
from separatrix.report.typeset import typeset

Rows = Sequence[tuple[str, Sequence[str]]]


def comparison(rows: Rows, caption: str) -> Component:
    """A table of the rows, with typeset formulas, and with column headings if there are two settings."""
    settings = len(rows[0][1])
    head = []
    if settings > 1:
        names = [html.Th(f"Setting {letter}", scope="col") for letter in "AB"[:settings]]
        head = [html.Thead(html.Tr([html.Td(), *names]))]
    body = [
        html.Tr(
            [
                html.Th([*typeset(name, element)], scope="row"),
                *(html.Td([*typeset(text, element)], className=_kind(text)) for text in texts),
            ]
        )
        for name, texts in rows
    ]
    return html.Table([html.Caption(caption), *head, html.Tbody(body)], className="comparison")


def _kind(text: str) -> str:
    return "text" if len(text) > 30 else "figure"
