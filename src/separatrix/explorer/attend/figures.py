"""The heat map of the weights of a query over pairs of keys, with marginal sums, and a table of the largest weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import plotly.graph_objects as go  # type: ignore[import-untyped]
from dash.development.base_component import Component
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.attention.weights.drawing import scale_of
from separatrix.attention.weights.pair_map import PairMap
from separatrix.explorer.comparison import comparison
from separatrix.report.tables import columns_from
from separatrix.report.theme import BLUE, SCALE, THEME, Drawing

HEIGHT = 680


def draw_weights(pair_map: PairMap, name: str) -> Drawing:
    """Draw the weights of a query over pairs of keys; `name` is the name of the call in the caption."""
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
    cells, (rows, columns) = pair_map.cells.tolist(), pair_map.cells.shape
    y, x = (_middles(count, step) for count, step in zip((rows, columns), pair_map.keys_per_cell, strict=True))
    low, high = (math.log10(value) if value > 0 else 0.0 for value in scale_of(pair_map.cells))
    several = max(pair_map.keys_per_cell) > 1
    meaning = f"sum over {pair_map.keys_per_cell[0]} x {pair_map.keys_per_cell[1]} keys" if several else "weight"
    at = [low + (high - low) * step / 2 for step in range(3)] if high > low else [high]
    heat = go.Heatmap(
        x=x,
        y=y,
        z=[[math.log10(value) if value > 0 else None for value in row] for row in cells],
        customdata=cells,
        zmin=low,
        zmax=high if high > low else low + 1,
        colorscale=SCALE,
        colorbar={
            "title": {"text": f"{meaning}, on a logarithmic scale", "side": "top"},
            "tickvals": at,
            "ticktext": [f"{10**value:.2g}" for value in at],
            "orientation": "h",
            "len": 0.83,
            "thickness": 12,
            "x": 0,
            "xanchor": "left",
            "y": -0.11,
            "yanchor": "top",
        },
        hovertemplate=f"first %{{y}}, second %{{x}}<br>{meaning} %{{customdata:.3g}}<extra></extra>",
    )
    figure.add_trace(heat, row=2, col=1)
    bar = {"marker_color": BLUE, "marker_line_width": 0}
    above, beside = pair_map.cells.sum(0).tolist(), pair_map.cells.sum(1).tolist()
    hover = "key %{x}<br>all partners: %{y:.3g}<extra></extra>"
    figure.add_trace(go.Bar(x=x, y=above, hovertemplate=hover, **bar), row=1, col=1)
    hover = "key %{y}<br>all partners: %{x:.3g}<extra></extra>"
    figure.add_trace(go.Bar(x=beside, y=y, orientation="h", hovertemplate=hover, **bar), row=2, col=2)
    for colour, width in (("#000000", 3.0), ("#ffffff", 1.4)):
        rings = go.Scatter(
            x=[second for _, second, _ in pair_map.top],
            y=[first for first, _, _ in pair_map.top],
            customdata=[weight for _, _, weight in pair_map.top],
            mode="markers",
            marker={"symbol": "circle-open", "size": 12, "color": colour, "line": {"width": width}},
            hovertemplate="the pair (%{y}, %{x})<br>weight %{customdata:.3g}<extra></extra>",
            cliponaxis=False,
        )
        figure.add_trace(rings, row=2, col=1)
    lengths = len(pair_map.first), len(pair_map.second)
    figure.update_xaxes(title_text="key of the second set", range=[-0.5, lengths[1] - 0.5], row=2, col=1)
    figure.update_yaxes(title_text="key of the first set", range=[lengths[0] - 0.5, -0.5], row=2, col=1)
    for axis, sums, place in (
        (figure.update_yaxes, above, {"row": 1, "col": 1}),
        (figure.update_xaxes, beside, {"row": 2, "col": 2}),
    ):
        most = max(sums)
        axis(tickvals=[most], ticktext=[f"{most:.2g}"], tickangle=0, range=[0, 1.05 * most or 1.0], **place)
    table = [(row, column, cells[i][j]) for i, row in enumerate(y) for j, column in enumerate(x)]
    return Drawing(figure, caption(pair_map, name), columns_from(("first", "second", "weight"), table))


def _middles(count: int, step: int) -> list[float]:
    """The centres of `count` cells of `step` keys each.

    >>> _middles(3, 1), _middles(2, 4)
    ([0.0, 1.0, 2.0], [1.5, 5.5])
    """
    return [at * step + (step - 1) / 2 for at in range(count)]


def caption(pair_map: PairMap, name: str) -> str:
    """The caption of the map."""
    lengths = f"{len(pair_map.first):,} x {len(pair_map.second):,}"
    if not pair_map.top:
        return f"Query {pair_map.query} of {name} has no key to attend to among {lengths} pairs."
    first, second, weight = pair_map.top[0]
    together = sum(weight for _, _, weight in pair_map.top)
    return (
        f"Query {pair_map.query} of {name} and its {lengths} pairs of keys: the largest weight, {weight:.3g}, "
        f"belongs to the pair ({first}, {second}), and the {len(pair_map.top)} circled pairs have {together:.3g} "
        "of the total weight. The bars are the sums over all partners of a key."
    )


def listed(pair_map: PairMap, name: str, words: Callable[[int, int], str] | None = None) -> Component | None:
    """A table of the pairs of largest weight, with the text of `words` for each pair; None if all pairs are masked."""
    rows = []
    for first, second, weight in pair_map.top:
        more = f": {words(first, second)}" if words else ""
        rows.append((f"({first}, {second}){more}", [f"{weight:.4g}"]))
    return comparison(rows, f"The largest weights of query {pair_map.query} of {name}.") if rows else None
