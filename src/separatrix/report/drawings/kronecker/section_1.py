"""Section 1 of Alman and Song: a triple that order-3 attention finds, and the entries that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, RED, Drawing, Value, figure


@drawing
def triple_found(found: Sequence[Found]) -> Drawing:
    """Section 1: the attention of position 0 over all pairs, for one input that has one triple."""
    one = next(row for row in rows_of(found) if "weights" in row)
    tokens, weights, M = one["tokens"], one["weights"], one["modulus"]
    n, j1, j2 = len(tokens), one["j1"], one["j2"]
    drawn = figure("x<sub>j2</sub> of the second key", "x<sub>j1</sub> of the first key", height=560)
    names = [*(str(token) for token in tokens), "blank"]

    def told(a: int, b: int) -> str:
        if n in (a, b):
            return "blank alone" if a == b else "token and blank"
        total = tokens[0] + tokens[a] + tokens[b]
        return f"{tokens[0]} + {tokens[a]} + {tokens[b]} = {total % M} (mod {M})"

    hover = [[told(a, b) for b in range(n + 1)] for a in range(n + 1)]
    drawn.add_trace(
        go.Heatmap(
            x=list(range(n + 1)),
            y=list(range(n + 1)),
            z=weights,
            text=hover,
            hovertemplate="%{text}<br>weight %{z:.3g}<extra></extra>",
            colorscale=[[0, "rgba(47, 127, 193, 0.1)"], [1, BLUE]],
            showscale=False,
            xgap=1,
            ygap=1,
        )
    )
    label = f"{tokens[0]} + {tokens[j1]} + {tokens[j2]} = {tokens[0] + tokens[j1] + tokens[j2]}"
    drawn.add_trace(_frames(f"{label}, weight {weights[j1][j2] + weights[j2][j1]:.2f}", [(j1, j2), (j2, j1)], RED))
    drawn.add_trace(_frames(f"blank, weight {weights[n][n]:.2f}", [(n, n)], GREEN))
    drawn.update_xaxes(tickvals=list(range(n + 1)), ticktext=names, tickangle=-90, showgrid=False)
    drawn.update_yaxes(tickvals=list(range(n + 1)), ticktext=names, range=[n + 0.6, -0.6], showgrid=False)
    drawn.update_xaxes(range=[-0.6, n + 0.6])
    drawn.update_layout(legend={"y": -0.3})
    text = (
        f"The attention of the token {tokens[0]} over all pairs of {n} tokens and a blank, modulo {M}: of its weight "
        f"{weights[j1][j2] + weights[j2][j1]:.2f} is on {tokens[j1]} and {tokens[j2]}, with which it makes {label}, "
        f"and {weights[n][n]:.2f} on the blank."
    )
    columns: dict[str, list[Value]] = {name: [] for name in ("j1", "j2", "x_j1", "x_j2", "weight")}
    for a in range(n + 1):
        for b in range(n + 1):
            for name, value in zip(columns, (a, b, names[a], names[b], weights[a][b]), strict=True):
                columns[name].append(value)
    return Drawing(drawn, text, columns)


def _frames(name: str, cells: Sequence[tuple[int, int]], colour: str) -> go.Scatter:
    """A frame around each (row, column)."""
    x = [edge for _, b in cells for edge in (b - 0.5, b + 0.5, b + 0.5, b - 0.5, b - 0.5, None)]
    y = [edge for a, _ in cells for edge in (a - 0.5, a - 0.5, a + 0.5, a + 0.5, a - 0.5, None)]
    return curve(name, x, y, colour, mode="lines", hoverinfo="skip")


@drawing
def match_entry_bound(found: Sequence[Found]) -> Drawing:
    """Section 1: the entry bound that the order-3 head needs against M, by the number of its frequencies."""
    rows = sorted((row for row in rows_of(found) if "entry_bound" in row), key=lambda row: int(row["frequencies"]))
    n = rows[0]["n"]
    drawn = figure("modulus M", "entry bound B", log_x=True, log_y=True, height=460)
    columns: dict[str, list[Value]] = {
        name: [] for name in ("frequencies", "width", "modulus", "margin", "inverse_temperature", "entry_bound")
    }
    for row, colour in zip(rows, COLOURS, strict=False):
        F, moduli, bounds = row["frequencies"], row["moduli"], row["entry_bound"]
        name = f"width {3 * F + 1}" + (" (one frequency)" if F == 1 else f" ({F} frequencies)")
        drawn.add_trace(curve(name, moduli, bounds, colour, mode="lines"))
        for M, mu, beta, B in zip(moduli, row["margin"], row["inverse_temperature"], bounds, strict=True):
            for column, value in zip(columns, (F, 3 * F + 1, M, mu, beta, B), strict=True):
                columns[column].append(value)
    border = math.log(n) ** (1 / 3)
    ends = [rows[0]["moduli"][0], rows[0]["moduli"][-1]]
    drawn.add_trace(curve("(ln n)<sup>1/3</sup>", ends, [border, border], GREY, mode="lines", dash="dash"))
    first = rows[0]
    text = (
        f"The entry bound B of the order-3 head for n = {n} against M: with one frequency it grows as M^(2/3), to "
        f"{first['entry_bound'][-1]:.3g} at M = 2^31, with four as M^(1/6), to {rows[-1]['entry_bound'][-1]:.3g}; all "
        f"lie above (ln n)^(1/3) = {border:.2f}."
    )
    return Drawing(drawn, text, columns)
