"""Section 1 of Alman and Song: a triple that order-3 attention finds, and the entries that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves, Map, curve, drawing
from separatrix.report.tables import Results, columns_of, one_row_per_entry, rows_of
from separatrix.report.theme import BLUE, GREEN, RED, Drawing

_WEIGHTS = Map(
    z="weight",
    x=Axis("x<sub>j2</sub> of the second key", "j2"),
    y=Axis("x<sub>j1</sub> of the first key", "j1"),
    hover="%{text}<br>weight %{z:.3g}",
    height=560,
    look={"colorscale": [[0, "rgba(47, 127, 193, 0.1)"], [1, BLUE]], "showscale": False, "xgap": 1, "ygap": 1},
)


@drawing
def triple_found(results: Results) -> Drawing:
    """Section 1: the attention of a query over all pairs of keys, for an input with one triple."""
    cell = next(row for row in rows_of(results) if "weights" in row)
    tokens, weights, M = cell["tokens"], cell["weights"], cell["modulus"]
    n, j1, j2 = len(tokens), cell["j1"], cell["j2"]
    names = [*(str(token) for token in tokens), "blank"]
    places = range(n + 1)
    rows = [
        {"j1": a, "j2": b, "x_j1": names[a], "x_j2": names[b], "weight": weights[a][b]} for a in places for b in places
    ]

    def sum_of(a: int, b: int) -> str:
        if n in (a, b):
            return "blank alone" if a == b else "token and blank"
        total = tokens[0] + tokens[a] + tokens[b]
        return f"{tokens[0]} + {tokens[a]} + {tokens[b]} = {total % M} (mod {M})"

    drawn = _WEIGHTS.figure(rows)
    drawn.update_traces(text=[[sum_of(a, b) for b in places] for a in places])
    label = f"{tokens[0]} + {tokens[j1]} + {tokens[j2]} = {tokens[0] + tokens[j1] + tokens[j2]}"
    drawn.add_trace(_frames(f"{label}, weight {weights[j1][j2] + weights[j2][j1]:.2f}", [(j1, j2), (j2, j1)], RED))
    drawn.add_trace(_frames(f"blank, weight {weights[n][n]:.2f}", [(n, n)], GREEN))
    drawn.update_xaxes(tickvals=list(places), ticktext=names, tickangle=-90, showgrid=False, range=[-0.6, n + 0.6])
    drawn.update_yaxes(tickvals=list(places), ticktext=names, range=[n + 0.6, -0.6], showgrid=False)
    drawn.update_layout(legend={"y": -0.3})
    text = (
        f"The attention of the token {tokens[0]} over all pairs of {n} tokens and a blank, modulo {M}: of its weight "
        f"{weights[j1][j2] + weights[j2][j1]:.2f} is on {tokens[j1]} and {tokens[j2]}, with which it makes {label}, "
        f"and {weights[n][n]:.2f} on the blank."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


def _frames(name: str, cells: Sequence[tuple[int, int]], colour: str) -> go.Scatter:
    """Draw a frame around each (row, column)."""
    x = [edge for _, b in cells for edge in (b - 0.5, b + 0.5, b + 0.5, b - 0.5, b - 0.5, None)]
    y = [edge for a, _ in cells for edge in (a - 0.5, a - 0.5, a + 0.5, a + 0.5, a - 0.5, None)]
    return curve(name, x, y, colour, mode="lines", hoverinfo="skip")


@Curves(
    series=Curve("entry_bound", "width {width} ({label})", mode="lines"),
    by=("frequencies",),
    x=Axis("modulus M", "modulus", log=True),
    y=Axis("entry bound B", log=True),
    bound=Bound("(ln n)<sup>1/3</sup>", "border"),
    height=460,
    columns=("frequencies", "width", "modulus", "margin", "inverse_temperature", "entry_bound"),
)
def match_entry_bound(results: Results) -> Chart:
    """Section 1: the entry bound that a head of order 3 needs to detect triples, against the modulus M."""
    cells = sorted((row for row in rows_of(results) if "entry_bound" in row), key=lambda row: int(row["frequencies"]))
    n = cells[0]["n"]
    border = math.log(n) ** (1 / 3)
    named = [
        {
            **row,
            "modulus": row["moduli"],
            "border": border,
            "width": 3 * row["frequencies"] + 1,
            "label": "one frequency" if row["frequencies"] == 1 else f"{row['frequencies']} frequencies",
        }
        for row in cells
    ]
    return one_row_per_entry(named, "modulus", "margin", "inverse_temperature", "entry_bound"), (
        f"The entry bound B of the order-3 head for n = {n} against M: with one frequency it grows as M^(2/3), to "
        f"{cells[0]['entry_bound'][-1]:.3g} at M = 2^31, with four as M^(1/6), to {cells[-1]['entry_bound'][-1]:.3g}; "
        f"all lie above (ln n)^(1/3) = {border:.2f}."
    )
