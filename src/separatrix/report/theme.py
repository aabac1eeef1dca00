"""The theme of all figures, and `Drawing`: a figure with its text alternative and its data.

Text and lines are grey and backgrounds are transparent, so that figures are readable on light and dark pages. The
colours of the series are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go  # type: ignore[import-untyped]

Value = int | float | str | None

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#2f7fc1", "#e69f00", "#009e73", "#d55e00", "#b5629b", "#56b4e9"
GREY = "#7f8794"
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
SCALE = "Viridis"
_GRID = "rgba(127, 135, 148, 0.25)"
_AXIS = {
    "gridcolor": _GRID,
    "linecolor": GREY,
    "zeroline": False,
    "showline": True,
    "ticks": "outside",
    "tickcolor": GREY,
    "automargin": True,
    "title": {"standoff": 8},
}
THEME = go.layout.Template(
    layout={
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13, "color": GREY},
        "colorway": COLOURS,
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": {"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0, "xanchor": "left"},
        "hovermode": "closest",
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
)


@dataclass(frozen=True)
class Drawing:
    """A figure, its text alternative, and its data as columns of equal length."""

    figure: go.Figure
    text: str
    columns: Mapping[str, Sequence[Value]]

    def csv(self) -> str:
        """The columns as CSV, names first; None is an empty field.

        >>> Drawing(go.Figure(), "Nothing.", {"n": [1, 2], "flops": [0.5, None]}).csv()
        'n,flops\\n1,0.5\\n2,\\n'
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return text.getvalue()


def figure(x: str, y: str, *, log_x: bool = False, log_y: bool = False, height: int = 420) -> go.Figure:
    """An empty figure with axis titles and the theme, as wide as the page."""
    empty = go.Figure(layout={"template": THEME, "height": height})
    power = {"type": "log", "exponentformat": "power", "dtick": None}
    empty.update_xaxes(title_text=x, **(power if log_x else {}))
    empty.update_yaxes(title_text=y, **(power if log_y else {}))
    return empty
