"""Theorem 3.5 of Wang, Wei, Hsu and Lee: fully-connected nets against the infimum for their width."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREY, RED, Drawing, Value, figure


@drawing
def fully_connected_widths(found: Sequence[Found]) -> Drawing:
    """Theorem 3.5: squared error against the width of the first layer, by the formula and by nets."""
    rows = rows_of(found)
    formula = max((row for row in rows if "eigenvalue_gap" in row), key=lambda row: row["T"] * row["d"])
    nets = sorted((row for row in rows if "floor" in row), key=lambda row: row["widths"][0])
    beside = next(row for row in rows if "width" in row and "squared_error" in row)
    drawn = figure("width of the first layer", "mean squared error", log_y=True, height=460)
    k = list(range(1, len(formula["infimum"]) - 1))
    drawn.add_trace(curve("infimum over all nets", k, formula["infimum"][1:-1], GREY, mode="lines"))
    near = {"color": GREY, "symbol": "circle-open", "size": 7}
    near_y = formula["near_optimal"][:-1]
    drawn.add_trace(go.Scatter(name="nets built to approach it", x=k, y=near_y, mode="markers", marker=near))
    columns: dict[str, list[Value]] = {name: [] for name in ("what", "first width", "squared error", "parameters")}

    def add(what: str, width: int, error: float, parameters: int | None) -> None:
        for name, value in zip(columns, (what, width, error, parameters), strict=True):
            columns[name].append(value)

    for width, low, near_by in zip(k, formula["infimum"][1:-1], near_y, strict=True):
        add("infimum", width, low, None)
        add("built net", width, near_by, None)
    labels = [f"{'-'.join(map(str, row['widths']))} {row['activation']}" for row in nets]
    shown = go.Scatter(
        name="trained nets",
        x=[row["widths"][0] for row in nets],
        y=[row["squared_error"] for row in nets],
        text=labels,
        customdata=[row["parameters"] for row in nets],
        hovertemplate="%{text}, %{customdata} parameters<br>squared error %{y:.4f}<extra></extra>",
        mode="markers",
        marker={"color": RED, "size": 10, "symbol": "diamond"},
    )
    drawn.add_trace(shown)
    for label, row in zip(labels, nets, strict=True):
        add(f"trained net {label}", row["widths"][0], row["squared_error"], row["parameters"])
    name = f"transformer, {beside['parameters']:,} parameters"
    star = {"color": BLUE, "size": 14, "symbol": "star"}
    drawn.add_trace(
        go.Scatter(name=name, x=[beside["width"]], y=[beside["squared_error"]], mode="markers", marker=star)
    )
    add("transformer", beside["width"], beside["squared_error"], beside["parameters"])
    text = (
        f"Squared error against the first width at T = {formula['T']}, q = {formula['q']}, d = {formula['d']}: trained "
        f"nets stay above the infimum for their width, down to {min(row['squared_error'] for row in nets):.2f}, and "
        f"the transformer reaches {beside['squared_error']:.3f}."
    )
    return Drawing(drawn, text, columns)
