"""Theorem 3.1 of Wang, Wei, Hsu and Lee: the counted time to a loss, the law and the bound."""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.selection.theorem_3_1 import exponents
from separatrix.report.charts import Axis, Chart, Curve, Curves, drawing
from separatrix.report.tables import Results, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, Drawing, Value, figure

_SWEEPS = {"T": "T varies", "d": "d varies", "epsilon": "ε varies", "lr": "the rate varies"}


@Curves(
    series=(
        Curve("steps", "{label}", mode="markers"),
        Curve("the law", "the law", GREY, mode="lines", dash="dash"),
        Curve("the bound", "the bound", GREY, mode="markers", symbol="triangle-up-open", size=9),
    ),
    by=("sweep",),
    x=Axis("steps by the law", "law", log=True),
    y=Axis("steps", log=True),
    columns=("sweep", "T", "q", "d", "lr", "epsilon", "steps", "law", "bound"),
)
def time_to_loss(results: Results) -> Chart:
    """Theorem 3.1: counted steps and the bound against the law."""
    counted = [cell for cell in results if "law" in cell.result]
    rows = sorted(rows_of(counted), key=lambda row: float(row["law"]))
    by_sweep = sorted(rows, key=lambda row: list(_SWEEPS).index(row["sweep"]))
    curves = [{"sweep": None, "law": row["law"], "the law": row["law"], "the bound": row["bound"]} for row in rows]
    factor = min(row["bound"] / row["steps"] for row in rows)
    text = (
        "Steps to the loss epsilon against the steps by the law, on logarithmic axes: counted steps agree with the "
        f"law, and the theorem's bound without its logarithms is at least {factor:.0f} times larger."
    )
    return [*({**row, "label": _SWEEPS[row["sweep"]]} for row in by_sweep), *curves], text, rows


@drawing
def time_exponents(results: Results) -> Drawing:
    """Theorem 3.1: the powers of T, d, epsilon and the rate in the time."""
    powers = exponents(results)
    names = {"T": "T", "d": "d", "epsilon": "ε", "lr": "rate"}
    drawn = figure("variable", "power in the steps", height=400)
    columns: dict[str, list[Value]] = {"variable": [names[name] for name in powers]}
    for at, (name, colour) in enumerate((("counted", BLUE), ("by the law", GREEN), ("in the bound", ORANGE))):
        values = [power[at] for power in powers.values()]
        drawn.add_trace(go.Bar(name=name, x=columns["variable"], y=values, marker_color=colour))
        columns[name] = list(values)
    drawn.update_layout(barmode="group")
    drawn.add_hline(y=0, line={"color": GREY, "width": 1})
    measured = ", ".join(f"{power[0]:.2f} in {names[name]}" for name, power in powers.items())
    text = f"The powers in the counted number of steps are {measured}; those of the bound are 2, 1, -1 and -1."
    return Drawing(drawn, text, columns)
