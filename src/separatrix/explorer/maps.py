"""Curves over one parameter and maps over two: the controls and the maps of all tabs that have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from separatrix.explorer import controls
from separatrix.explorer.address import compares
from separatrix.explorer.cards import figure_card
from separatrix.explorer.fields import Field, choice
from separatrix.report.theme import SCALE, Drawing, Value, figure

NONE = "none"
HEIGHT = 440
_CELLS = 21
"""The largest number of values of each parameter of a map, so that maps are fast to compute."""


@dataclass(frozen=True)
class MapAxis:
    """A parameter of a map: its name in the URL, its symbol, its values in the map, and its value in the setting."""

    name: str
    symbol: str
    values: Sequence[Any]
    here: Any
    log: bool


@dataclass(frozen=True)
class Quantity:
    """The quantity of a map: a share from 0 to 1, or with `log` a positive number on a logarithmic scale.

    Shares are brightest at their largest values, numbers with `log` at their smallest.
    """

    name: str
    log: bool = False


def along_field(help: str, place: str, symbols: Mapping[str, str], *, default: str) -> Field:
    """The field that chooses the parameter on the horizontal axis of a curve or map."""
    return choice("along", "Horizontal axis", help, place, symbols, default=default, shared=True)


def across_field(help: str, place: str, symbols: Mapping[str, str]) -> Field:
    """The field that chooses the parameter on the vertical axis of a map; without one there is a curve."""
    return choice("across", "Vertical axis", help, place, {NONE: "none", **symbols}, default=NONE, shared=True)


def section(
    tab: str,
    fields: tuple[Field, Field],
    state: Mapping[str, str],
    card: str,
    title: str,
    first: Callable[[], Drawing | None] = lambda: None,
) -> list[Component]:
    """Both fields, an alert (`alert_id`), and the card of the curve or the map (see `figure_card`).

    The field of the second parameter is hidden while two settings are compared, because they are drawn as curves.
    """
    along, across = (controls.control(tab, field, state[field.name]) for field in fields)
    second = html.Div(across, hidden=compares(state))
    return [along, second, controls.alert(alert_id(tab)), figure_card(card, title=title, height=HEIGHT, first=first)]


def alert_id(tab: str) -> str:
    """The id of the alert of a tab's section."""
    return f"{tab}-curve-alert"


def is_map(settings: Sequence[object], along: str, across: str) -> bool:
    """Whether to draw a map: for a single setting and two different parameters. Two settings are drawn as curves."""
    return len(settings) == 1 and across not in (NONE, along)


def some(values: Sequence[Any]) -> list[Any]:
    """At most as many of the values as a map has, evenly spaced, including the first and the last."""
    if len(values) <= _CELLS:
        return list(values)
    return [values[round(i * (len(values) - 1) / (_CELLS - 1))] for i in range(_CELLS)]


def draw_map(x: MapAxis, y: MapAxis, z: Sequence[Sequence[float | None]], quantity: Quantity, text: str) -> Drawing:
    """Draw a quantity over two parameters, with a row of `z` for each value of `y`, and a star at the setting.

    None leaves a cell blank.
    """
    drawn = figure(x.symbol, y.symbol, log_x=x.log, log_y=y.log, height=HEIGHT)
    at = f"{x.symbol} = %{{x:.4g}}, {y.symbol} = %{{y:.4g}}"
    drawn.add_trace(
        go.Heatmap(
            x=[float(value) for value in x.values],
            y=[float(value) for value in y.values],
            **(_powers(z, quantity, at) if quantity.log else _share(z, quantity, at)),
            hoverongaps=False,
        )
    )
    star = {"symbol": "star", "size": 15, "color": "white", "line": {"color": "black", "width": 1.5}}
    drawn.add_scatter(
        name="you are here", x=[float(x.here)], y=[float(y.here)], mode="markers", marker=star, showlegend=False
    )
    columns: dict[str, list[Value]] = {
        x.name: [str(a) for _ in y.values for a in x.values],
        y.name: [str(b) for b in y.values for _ in x.values],
        quantity.name: [value for row in z for value in row],
    }
    return Drawing(drawn, text, columns)


def _share(z: Sequence[Sequence[float | None]], quantity: Quantity, at: str) -> dict[str, Any]:
    bar = {"title": {"text": quantity.name}, "thickness": 12}
    hover = f"{at}: %{{z:.3f}}<extra></extra>"
    return {"z": z, "zmin": 0, "zmax": 1, "colorscale": SCALE, "colorbar": bar, "hovertemplate": hover}


def _powers(z: Sequence[Sequence[float | None]], quantity: Quantity, at: str) -> dict[str, Any]:
    powers = [[None if value is None else math.log10(value) for value in row] for row in z]
    known = [value for row in powers for value in row if value is not None] or [0.0]
    whole = range(math.floor(min(known)), math.ceil(max(known)) + 1)
    ticks = {"tickvals": list(whole), "ticktext": [f"10<sup>{power}</sup>" for power in whole]}
    bar = {"title": {"text": quantity.name}, "thickness": 12, **ticks}
    hover = f"{at}: %{{customdata:.3g}}<extra></extra>"
    look = {"colorscale": SCALE, "reversescale": True, "colorbar": bar, "hovertemplate": hover}
    return {"z": powers, "customdata": z, **look}
