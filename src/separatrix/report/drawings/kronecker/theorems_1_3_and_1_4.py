"""Theorems 1.3 and 1.4 of Alman and Song: the phase diagram of the exponents."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import Row, curve, drawing, rows_of
from separatrix.report.theme import SCALE, THEME, Drawing, Value


def phase_grid(found: Sequence[Found]) -> dict[int, list[Row]]:
    """The rows of the phase diagram by order, n growing."""
    rows = [row for row in rows_of(found) if "polynomial_exponent" in row]
    orders = sorted({row["order"] for row in rows})
    return {k: sorted((row for row in rows if row["order"] == k), key=lambda row: int(row["log2_n"])) for k in orders}


@drawing
def threshold_phase_diagram(found: Sequence[Found]) -> Drawing:
    """Theorems 1.3 and 1.4: the exponent of the cheaper algorithm over B / (ln n)^(1/k) and n, an order a panel."""
    grid = phase_grid(found)
    drawn = make_subplots(rows=1, cols=len(grid), shared_yaxes=True, subplot_titles=[f"order {k}" for k in grid])
    drawn.update_layout(
        template=THEME,
        height=480,
        margin={"t": 60},
        coloraxis={"colorscale": SCALE, "colorbar": {"title": "log<sub>n</sub> flops"}},
    )
    columns: dict[str, list[Value]] = {
        name: [] for name in ("order", "log2_n", "ratio", "degree", "polynomial_exponent", "exact_exponent")
    }
    for column, (order, rows) in enumerate(grid.items(), start=1):
        n = [row["log2_n"] for row in rows]
        z = [[min(value, row["exact_exponent"]) for value in row["polynomial_exponent"]] for row in rows]
        hover = "n = 2^%{y}<br>B = %{x:.2f} (ln n)^(1/k)<br>exponent %{z:.2f}<extra></extra>"
        heat = go.Heatmap(x=rows[0]["ratios"], y=n, z=z, coloraxis="coloraxis", hovertemplate=hover)
        drawn.add_trace(heat, row=1, col=column)
        border = curve(
            "exact attention is cheaper to the right", [row["border"] for row in rows], n, "#ff4d4d",
            mode="lines", showlegend=column == 1, legendgroup="border",
        )  # fmt: skip
        drawn.add_trace(border, row=1, col=column)
        drawn.update_xaxes(range=[0.02, rows[0]["ratios"][-1]], row=1, col=column)
        for row in rows:
            for at, ratio in enumerate(row["ratios"]):
                values = (order, row["log2_n"], ratio, row["degree"][at], row["polynomial_exponent"][at])
                for name, value in zip(columns, (*values, row["exact_exponent"]), strict=True):
                    columns[name].append(value)
    # One title under the middle panel: on a phone three would run into each other.
    drawn.update_xaxes(title_text="B / (ln n)<sup>1/k</sup>", row=1, col=(len(grid) + 1) // 2)
    drawn.update_yaxes(title_text="log<sub>2</sub> n", row=1, col=1)
    borders = ", ".join(f"{rows[-1]['border']:.2f} at order {k}" for k, rows in grid.items())
    text = (
        "The exponent of n in the cost of the cheaper algorithm, over B / (ln n)^(1/k) and n: it rises with B until "
        f"exact attention takes over, at n = 2^{next(iter(grid.values()))[-1]['log2_n']} from {borders}."
    )
    return Drawing(drawn, text, columns)
