"""Theorem 3.5 of Wang, Wei, Hsu and Lee: fully-connected nets against the infimum for their width."""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, columns_from, rows_of
from separatrix.report.theme import BLUE, GREY, RED, Drawing, Value, figure


@drawing
def fully_connected_widths(results: Results) -> Drawing:
    """Theorem 3.5: squared error against the width of the first layer, by the formula and by nets."""
    rows = rows_of(results)
    formula = max((row for row in rows if "eigenvalue_gap" in row), key=lambda row: row["T"] * row["d"])
    nets = sorted((row for row in rows if "floor" in row), key=lambda row: row["widths"][0])
    transformer = next(row for row in rows if "width" in row and "squared_error" in row)
    drawn = figure("width of the first layer", "mean squared error", log_y=True, height=460)
    k = list(range(1, len(formula["infimum"]) - 1))
    drawn.add_trace(curve("infimum over all nets", k, formula["infimum"][1:-1], GREY, mode="lines"))
    near = {"color": GREY, "symbol": "circle-open", "size": 7}
    near_y = formula["near_optimal"][:-1]
    drawn.add_trace(go.Scatter(name="nets built to approach it", x=k, y=near_y, mode="markers", marker=near))
    labels = [f"{'-'.join(map(str, row['widths']))} {row['activation']}" for row in nets]
    trained = go.Scatter(
        name="trained nets",
        x=[row["widths"][0] for row in nets],
        y=[row["squared_error"] for row in nets],
        text=labels,
        customdata=[row["parameters"] for row in nets],
        hovertemplate="%{text}, %{customdata} parameters<br>squared error %{y:.4f}<extra></extra>",
        mode="markers",
        marker={"color": RED, "size": 10, "symbol": "diamond"},
    )
    drawn.add_trace(trained)
    name = f"transformer, {transformer['parameters']:,} parameters"
    star = {"color": BLUE, "size": 14, "symbol": "star"}
    drawn.add_trace(
        go.Scatter(name=name, x=[transformer["width"]], y=[transformer["squared_error"]], mode="markers", marker=star)
    )
    text = (
        f"Squared error against the first width at T = {formula['T']}, q = {formula['q']}, d = {formula['d']}: trained "
        f"nets stay above the infimum for their width, down to {min(row['squared_error'] for row in nets):.2f}, and "
        f"the transformer reaches {transformer['squared_error']:.3f}."
    )
    table: list[tuple[Value, ...]] = []
    for width, low, near_by in zip(k, formula["infimum"][1:-1], near_y, strict=True):
        table += [("infimum", width, low, None), ("built net", width, near_by, None)]
    for label, row in zip(labels, nets, strict=True):
        table.append((f"trained net {label}", row["widths"][0], row["squared_error"], row["parameters"]))
    table.append(("transformer", transformer["width"], transformer["squared_error"], transformer["parameters"]))
    names = ("what", "first width", "squared error", "parameters")
    return Drawing(drawn, text, columns_from(names, table))
