"""Theorem 3.1 of Wang, Wei, Hsu and Lee: the time to a loss, counted, beside the law and the bound."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.claims.selection.theorem_3_1 import exponents
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, Drawing, Value, figure


@drawing
def time_to_loss(found: Sequence[Found]) -> Drawing:
    """Theorem 3.1: counted steps against the law's, and the bound's."""
    counted = [one for one in found if "law" in one.result]
    rows = sorted(rows_of(counted), key=lambda row: float(row["law"]))
    drawn = figure("steps by the law", "steps", log_x=True, log_y=True)
    names = {"T": "T varies", "d": "d varies", "epsilon": "epsilon varies", "lr": "the rate varies"}
    for (sweep, name), colour in zip(names.items(), COLOURS, strict=False):
        line = [row for row in rows if row["sweep"] == sweep]
        x = [row["law"] for row in line]
        drawn.add_trace(curve(name, x, [row["steps"] for row in line], colour, mode="markers"))
    ends = [rows[0]["law"], rows[-1]["law"]]
    drawn.add_trace(curve("the law", ends, ends, GREY, mode="lines", dash="dash"))
    shape = {"color": GREY, "symbol": "triangle-up-open", "size": 9}
    laws, bounds = ([row[name] for row in rows] for name in ("law", "bound"))
    drawn.add_trace(go.Scatter(name="the bound", x=laws, y=bounds, mode="markers", marker=shape))
    factor = min(row["bound"] / row["steps"] for row in rows)
    text = (
        "Steps to the loss epsilon against what the law gives, on logarithmic axes: counted times lie on it, and the "
        f"theorem's bound without its logarithms is at least {factor:.0f} times above."
    )
    return Drawing(drawn, text, columns_of(rows, "sweep", "T", "q", "d", "lr", "epsilon", "steps", "law", "bound"))


@drawing
def time_exponents(found: Sequence[Found]) -> Drawing:
    """Theorem 3.1: the powers of T, d, epsilon and the rate in the time."""
    powers = exponents(found)
    shown = {"T": "T", "d": "d", "epsilon": "epsilon", "lr": "rate"}
    drawn = figure("variable", "power in the steps", height=400)
    columns: dict[str, list[Value]] = {"variable": [shown[name] for name in powers]}
    for at, (name, colour) in enumerate((("counted", BLUE), ("by the law", GREEN), ("in the bound", ORANGE))):
        values = [power[at] for power in powers.values()]
        drawn.add_trace(go.Bar(name=name, x=columns["variable"], y=values, marker_color=colour))
        columns[name] = list(values)
    drawn.update_layout(barmode="group")
    drawn.add_hline(y=0, line={"color": GREY, "width": 1})
    measured = ", ".join(f"{power[0]:.2f} in {shown[name]}" for name, power in powers.items())
    text = f"The powers in the counted number of steps are {measured}; those of the bound are 2, 1, -1 and -1."
    return Drawing(drawn, text, columns)
