"""A curve along one parameter that a second one makes a map: the controls and the map, for every tab that has one."""

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
"""So many values of each parameter at most: with more of them a map takes longer than a reader waits."""


@dataclass(frozen=True)
class MapAxis:
    """A parameter of a map: its name in the address, its symbol, its values in the map, and that of the setting."""

    name: str
    symbol: str
    values: Sequence[Any]
    here: Any
    log: bool


@dataclass(frozen=True)
class Quantity:
    """What the colours of a map mean: a share from 0 to 1, or with `log` a positive number whose power of 10 they show.

    Of a share the largest is the brightest, of a number in powers of 10 the smallest.
    """

    name: str
    log: bool = False


def along_field(help: str, place: str, symbols: Mapping[str, str], *, default: str) -> Field:
    """The field that chooses the parameter of a curve, which is also the horizontal one of a map."""
    return choice("along", "The curve goes along", help, place, symbols, default=default, shared=True)


def across_field(help: str, place: str, symbols: Mapping[str, str]) -> Field:
    """The field that chooses the vertical parameter of a map; with none there is a curve."""
    return choice("across", "and upwards", help, place, {NONE: "nothing", **symbols}, default=NONE, shared=True)


def section(
    tab: str,
    fields: tuple[Field, Field],
    state: Mapping[str, str],
    card: str,
    title: str,
    first: Callable[[], Drawing | None] = lambda: None,
) -> list[Component]:
    """Both fields, the place of an alert (`alert_id`), and the card of the curve or the map (see `figure_card`).

    The field of the second parameter is hidden while two settings are compared, which are drawn as curves.
    """
    along, across = (controls.control(tab, field, state[field.name]) for field in fields)
    second = html.Div(across, hidden=compares(state))
    return [along, second, controls.alert(alert_id(tab)), figure_card(card, title=title, height=HEIGHT, first=first)]


def alert_id(tab: str) -> str:
    """The id of the place where the section of a tab says what went wrong."""
    return f"{tab}-curve-alert"


def is_map(settings: Sequence[object], along: str, across: str) -> bool:
    """Whether two parameters make a map: two different ones of one setting. Of two settings the curve shows both."""
    return len(settings) == 1 and across not in (NONE, along)


def some(found: Sequence[Any]) -> list[Any]:
    """As many of the values as a map has, evenly chosen, the first and the last with them."""
    if len(found) <= _CELLS:
        return list(found)
    return [found[round(i * (len(found) - 1) / (_CELLS - 1))] for i in range(_CELLS)]


def draw_map(x: MapAxis, y: MapAxis, z: Sequence[Sequence[float | None]], quantity: Quantity, text: str) -> Drawing:
    """A quantity over two parameters, a row of `z` for each value of `y`, and a star where the setting lies.

    A None is left blank.
    """
    drawn = figure(x.symbol, y.symbol, log_x=x.log, log_y=y.log, height=HEIGHT)
    at = f"{x.symbol} = %{{x:.4g}}, {y.symbol} = %{{y:.4g}}"
    drawn.add_trace(
        go.Heatmap(
            x=[float(one) for one in x.values],
            y=[float(one) for one in y.values],
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
        quantity.name: [one for row in z for one in row],
    }
    return Drawing(drawn, text, columns)


def _share(z: Sequence[Sequence[float | None]], quantity: Quantity, at: str) -> dict[str, Any]:
    bar = {"title": {"text": quantity.name}, "thickness": 12}
    hover = f"{at}: %{{z:.3f}}<extra></extra>"
    return {"z": z, "zmin": 0, "zmax": 1, "colorscale": SCALE, "colorbar": bar, "hovertemplate": hover}


def _powers(z: Sequence[Sequence[float | None]], quantity: Quantity, at: str) -> dict[str, Any]:
    powers = [[None if one is None else math.log10(one) for one in row] for row in z]
    known = [one for row in powers for one in row if one is not None] or [0.0]
    whole = range(math.floor(min(known)), math.ceil(max(known)) + 1)
    ticks = {"tickvals": list(whole), "ticktext": [f"10<sup>{power}</sup>" for power in whole]}
    bar = {"title": {"text": quantity.name}, "thickness": 12, **ticks}
    hover = f"{at}: %{{customdata:.3g}}<extra></extra>"
    look = {"colorscale": SCALE, "reversescale": True, "colorbar": bar, "hovertemplate": hover}
    return {"z": powers, "customdata": z, **look}
