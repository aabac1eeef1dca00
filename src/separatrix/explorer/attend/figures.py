"""The map of the pairs that a query attends, with the sums along either side, and the list of the largest."""

from __future__ import annotations

import math
from collections.abc import Callable

import plotly.graph_objects as go  # type: ignore[import-untyped]
from dash.development.base_component import Component
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.attention.weights.pair_map import PairMap
from separatrix.attention.weights.png import scale_of
from separatrix.explorer.comparison import comparison
from separatrix.report.theme import BLUE, SCALE, THEME, Drawing, Value

HEIGHT = 680


def drawn(found: PairMap, name: str) -> Drawing:
    """The map of a query of the call that is called `name`."""
    figure = make_subplots(
        rows=2,
        cols=2,
        shared_xaxes=True,
        shared_yaxes=True,
        column_widths=[0.83, 0.17],
        row_heights=[0.17, 0.83],
        horizontal_spacing=0.015,
        vertical_spacing=0.015,
    )
    figure.update_layout(template=THEME, height=HEIGHT, showlegend=False, bargap=0, margin={"t": 20, "r": 30})
    cells, (rows, columns) = found.cells.tolist(), found.cells.shape
    y, x = (_middles(count, step) for count, step in zip((rows, columns), found.keys_per_cell, strict=True))
    low, high = (math.log10(one) if one > 0 else 0.0 for one in scale_of(found.cells))
    several = max(found.keys_per_cell) > 1
    told = f"sum over {found.keys_per_cell[0]} x {found.keys_per_cell[1]} keys" if several else "weight"
    at = [low + (high - low) * step / 2 for step in range(3)] if high > low else [high]
    heat = go.Heatmap(
        x=x,
        y=y,
        z=[[math.log10(one) if one > 0 else None for one in row] for row in cells],
        customdata=cells,
        zmin=low,
        zmax=high if high > low else low + 1,
        colorscale=SCALE,
        colorbar={
            "title": {"text": f"{told}, on a logarithmic scale", "side": "top"},
            "tickvals": at,
            "ticktext": [f"{10**one:.2g}" for one in at],
            "orientation": "h",
            "len": 0.83,
            "thickness": 12,
            "x": 0,
            "xanchor": "left",
            "y": -0.11,
            "yanchor": "top",
        },
        hovertemplate=f"first %{{y}}, second %{{x}}<br>{told} %{{customdata:.3g}}<extra></extra>",
    )
    figure.add_trace(heat, row=2, col=1)
    bar = {"marker_color": BLUE, "marker_line_width": 0}
    above, beside = found.cells.sum(0).tolist(), found.cells.sum(1).tolist()
    hover = "key %{x}<br>all partners: %{y:.3g}<extra></extra>"
    figure.add_trace(go.Bar(x=x, y=above, hovertemplate=hover, **bar), row=1, col=1)
    hover = "key %{y}<br>all partners: %{x:.3g}<extra></extra>"
    figure.add_trace(go.Bar(x=beside, y=y, orientation="h", hovertemplate=hover, **bar), row=2, col=2)
    for colour, width in (("#000000", 3.0), ("#ffffff", 1.4)):
        rings = go.Scatter(
            x=[second for _, second, _ in found.top],
            y=[first for first, _, _ in found.top],
            customdata=[weight for _, _, weight in found.top],
            mode="markers",
            marker={"symbol": "circle-open", "size": 12, "color": colour, "line": {"width": width}},
            hovertemplate="the pair (%{y}, %{x})<br>weight %{customdata:.3g}<extra></extra>",
            cliponaxis=False,
        )
        figure.add_trace(rings, row=2, col=1)
    lengths = len(found.first), len(found.second)
    figure.update_xaxes(title_text="key of the second set", range=[-0.5, lengths[1] - 0.5], row=2, col=1)
    figure.update_yaxes(title_text="key of the first set", range=[lengths[0] - 0.5, -0.5], row=2, col=1)
    for axis, sums, place in (
        (figure.update_yaxes, above, {"row": 1, "col": 1}),
        (figure.update_xaxes, beside, {"row": 2, "col": 2}),
    ):
        most = max(sums)
        axis(tickvals=[most], ticktext=[f"{most:.2g}"], tickangle=0, range=[0, 1.05 * most or 1.0], **place)
    columns_of: dict[str, list[Value]] = {"first": [], "second": [], "weight": []}
    for row, line in zip(y, cells, strict=True):
        for column, one in zip(x, line, strict=True):
            for label, value in zip(columns_of, (row, column, one), strict=True):
                columns_of[label].append(value)
    return Drawing(figure, caption(found, name), columns_of)


def _middles(count: int, step: int) -> list[float]:
    """The middles of cells of so many keys each.

    >>> _middles(3, 1), _middles(2, 4)
    ([0.0, 1.0, 2.0], [1.5, 5.5])
    """
    return [at * step + (step - 1) / 2 for at in range(count)]


def caption(found: PairMap, name: str) -> str:
    """What the map shows, in a sentence or two."""
    lengths = f"{len(found.first):,} x {len(found.second):,}"
    if not found.top:
        return f"Query {found.query} of {name} has nothing to attend among {lengths} pairs of keys."
    first, second, weight = found.top[0]
    together = sum(one for _, _, one in found.top)
    return (
        f"Query {found.query} of {name} and its {lengths} pairs of keys: the largest weight, {weight:.3g}, "
        f"is that of the pair ({first}, {second}), and the {len(found.top)} in rings have {together:.3g} "
        "of all weight. The bars add up all partners of a key."
    )


def listed(found: PairMap, name: str, words: Callable[[int, int], str] | None = None) -> Component | None:
    """The pairs of largest weight as a table; `words` says more of a pair. None where there is nothing to attend."""
    rows = []
    for first, second, weight in found.top:
        more = f": {words(first, second)}" if words else ""
        rows.append((f"({first}, {second}){more}", [f"{weight:.4g}"]))
    return comparison(rows, f"The pairs that query {found.query} of {name} attends most.") if rows else None
