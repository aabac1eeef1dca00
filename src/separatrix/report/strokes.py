"""What the drawings share: the registry of figures, rows and columns of results, curves and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.theme import GREY, Drawing, Value

FIGURES: dict[str, Callable[[Sequence[Found]], Drawing]] = {}

Row = Mapping[str, Any]


def drawing(function: Callable[[Sequence[Found]], Drawing]) -> Callable[[Sequence[Found]], Drawing]:
    """Register the function below as the figure of its name."""
    if function.__name__ in FIGURES:
        raise TypeError(f"two figures have the name {function.__name__}")
    FIGURES[function.__name__] = function
    return function


def rows_of(found: Iterable[Found]) -> list[Row]:
    """Parameters and results side by side."""
    return [{**one.parameters, **one.result} for one in found]


def columns_of(rows: Sequence[Row], *names: str) -> dict[str, list[Value]]:
    """The named columns of some rows."""
    return {name: [row[name] for row in rows] for name in names}


def curve(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, **more: Any) -> go.Scatter:
    """A line with dots."""
    line = {"color": colour, "dash": more.pop("dash", "solid")}
    return go.Scatter(name=name, x=list(x), y=list(y), mode=more.pop("mode", "lines+markers"), line=line, **more)


def ticks(drawn: go.Figure, values: Iterable[float]) -> None:
    """Number the x axis at these values."""
    at = sorted(set(values))
    drawn.update_xaxes(tickvals=at, ticktext=[f"{value:g}" for value in at])


def bound_line(drawn: go.Figure, values: Iterable[float]) -> None:
    """A dashed line at 1, across these x. (Plotly puts the label of a drawn line wrongly on a logarithmic axis.)"""
    x = sorted(set(values))
    drawn.add_trace(curve("the bound", [x[0], x[-1]], [1, 1], GREY, mode="lines", dash="dash"))
