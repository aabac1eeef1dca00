"""Cards of the page: figures with a caption and buttons that save them, and code with buttons that copy it.

The buttons work in the browser; nothing is sent to a server.
"""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from dash import dcc, html
from dash.dependencies import Output
from dash.development.base_component import Component

from separatrix.explorer.alerts import unchanged
from separatrix.explorer.attributes import attributes, element
from separatrix.report.sketch import sketch
from separatrix.report.theme import Drawing
from separatrix.report.typeset import typeset, with_formulas

INVALID = "A value is not valid: see the note below it."
EARLIER = "This figure shows the earlier settings: a value is not valid now."

log = logging.getLogger("separatrix.explorer")

_CONFIG: Any = {"responsive": True, "displaylogo": False, "displayModeBar": False, "scrollZoom": False}


def drawn_card(id: str, drawing: Drawing) -> Component:
    """A card with a fixed drawing, its caption and its buttons."""
    return _card(id, figure_values(drawing), "", int(drawing.figure.layout.height))


def figure_card(id: str, *, title: str, height: int, first: Callable[[], Drawing | None] = lambda: None) -> Component:
    """A card for a drawing of this height, which a callback fills (see `figure_outputs`).

    Until Plotly has loaded, which takes long, the card shows the outline of the `first` drawing, if there is one.
    """
    try:
        drawing = first()
    except Exception as error:  # the callback raises the same error, and the page shows it
        log.info("The outline of %s is left out: %r", id, error)
        drawing = None
    outline = None if drawing is None else _outline(drawing)
    return _card(id, {"figure": _nothing(height), "caption": "", "csv": ""}, title, height, outline)


def _outline(drawing: Drawing) -> Component:
    drawn = b64encode(str(sketch(json.loads(drawing.figure.to_json()))).encode()).decode()
    return html.Img(src=f"data:image/svg+xml;base64,{drawn}", alt="", className="sketch")


def _card(id: str, values: Mapping[str, Any], title: str, height: int, outline: Component | None = None) -> Component:
    kinds = {"png": "PNG", "svg": "SVG", "csv": "CSV"}
    buttons = [
        html.Button(
            text,
            type="button",
            className="save",
            **attributes(data_save=kind, aria_label=f"Save {title or id} as {text}"),
        )
        for kind, text in kinds.items()
    ]
    # A responsive graph takes its height from its container, and Plotly drops the height of the layout when the window
    # or the card is resized. Without this height the graph could have height 0.
    tall = {"height": f"{height}px"}
    graph = dcc.Graph(
        id={"kind": "graph", "of": id}, figure=values["figure"], config=_CONFIG, className="plot", style=tall
    )
    return html.Figure(
        [
            *([html.H3(title)] if title else []),
            html.Div(
                [outline, graph],
                className="wide",
                role="img",
                style={"minHeight": f"{height}px"},
                **attributes(aria_labelledby=f"caption-{id}"),
            ),
            html.Figcaption(html.Span(values["caption"], id={"kind": "caption", "of": id}), id=f"caption-{id}"),
            html.Div(["Save as ", *buttons, html.Span(className="told", role="status")], className="saves"),
            html.Pre(values["csv"], id={"kind": "csv", "of": id}, hidden=True, className="csv"),
        ],
        **attributes(data_name=id),
    )


def figure_outputs(id: str) -> dict[str, Output]:
    """The outputs of a callback that fills a card; `figure_values` are their values for a drawing."""
    return {
        "figure": Output({"kind": "graph", "of": id}, "figure"),
        "caption": Output({"kind": "caption", "of": id}, "children"),
        "csv": Output({"kind": "csv", "of": id}, "children"),
    }


def figure_values(drawing: Drawing) -> dict[str, Any]:
    """The values of `figure_outputs` for a drawing."""
    return {"figure": drawing.figure, "caption": typeset(with_formulas(drawing.text), element), "csv": drawing.csv()}


def earlier_figure(id: str, caption: str = EARLIER) -> dict[str, Any]:
    """The values of `figure_outputs` while the input is invalid: the drawing stays, and its caption says so."""
    return {**unchanged(figure_outputs(id)), "caption": caption}


def copy_card(id: str, python: str = "", command: str = "") -> Component:
    """A card with a program and a command, each with a button that copies it."""
    both = [_copied(id, "python", "Copy as Python", python), _copied(id, "command", "Copy as command", command)]
    return html.Div(both, className="copies")


def copy_outputs(id: str) -> dict[str, Output]:
    """The outputs of a callback that fills a copy card: the texts `python` and `command`."""
    return {kind: Output({"kind": kind, "of": id}, "children") for kind in ("python", "command")}


def no_copy() -> dict[str, str]:
    """The values of `copy_outputs` while a setting is invalid: a comment instead of a program and a command."""
    return {kind: f"# {INVALID}" for kind in ("python", "command")}


def _copied(id: str, kind: str, says: str, text: str) -> Component:
    return html.Div(
        [
            html.Button(says, type="button", className="copy", **attributes(data_copy="true")),
            html.Span(className="told", role="status"),
            html.Pre(text, id={"kind": kind, "of": id}, tabIndex=0),
        ],
        className="copyable",
    )


def _nothing(height: int) -> dict[str, Any]:
    clear = "rgba(0, 0, 0, 0)"
    hidden = {"visible": False}
    return {
        "data": [],
        "layout": {"height": height, "paper_bgcolor": clear, "plot_bgcolor": clear, "xaxis": hidden, "yaxis": hidden},
    }
