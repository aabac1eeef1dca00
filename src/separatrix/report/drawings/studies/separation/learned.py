"""Learned weights: accuracy at the training length and beyond, softmax regression, and explicit weights."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Chart, Curve, Curves, curve, drawing, error_bars
from separatrix.report.tables import Results, Row, columns_of, rows_of
from separatrix.report.theme import BLUE, GREY, ORANGE, RED, SKY, THEME, Drawing, figure
from separatrix.studies.separation.learned import FACTORS, MECHANISMS, SETTINGS

_LOOK = {
    ("softmax", "y"): (BLUE, "solid", "circle"),
    ("softmax", "y and X"): (SKY, "dash", "square"),
    ("linear", "y"): (RED, "solid", "circle"),
    ("linear", "y and X"): (ORANGE, "dash", "square"),
}


def _spread(values: Sequence[Sequence[float]], colour: str) -> dict[str, Any]:
    """Error bars from the minimum to the maximum over seeds, around the mean."""
    means, least, largest = ([of(seeds) for seeds in values] for of in (mean, min, max))
    return error_bars(means, least, largest, color=colour, thickness=1)


def _summary(values: Sequence[float]) -> Row:
    return {"mean": mean(values), "least": min(values), "largest": max(values)}


@drawing
def learned_accuracy(results: Results) -> Drawing:
    """Held-out accuracy at n, 4 n and 16 n, one panel per setting: means and ranges over seeds."""
    titles = [setting.replace(", ", ",<br>") for setting in SETTINGS]
    drawn = make_subplots(rows=1, cols=len(titles), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    drawn.update_layout(template=THEME, height=460, margin={"t": 60})
    drawn.update_annotations(font_size=12)
    lengths = [("n" if factor == 1 else f"{factor} n") for factor in FACTORS]
    rows: list[Row] = []
    for cell in results:
        parameters = {name: cell.parameters[name] for name in ("setting", "mechanism", "trained")}
        setting, mechanism, trained = parameters.values()
        colour, dash, symbol = _LOOK[mechanism, trained]
        values, column = cell.result["held_out"], 1 + SETTINGS.index(setting)
        look = {"dash": dash, "marker": {"symbol": symbol, "size": 8}, "error_y": _spread(values, colour)}
        label = f"{mechanism}, {trained}"
        line = curve(label, lengths, [mean(seeds) for seeds in values], colour, **look)
        drawn.add_trace(line.update(legendgroup=label, showlegend=column == 1), row=1, col=column)
        rows += [
            {**parameters, "length": length, **_summary(seeds)} for length, seeds in zip(lengths, values, strict=True)
        ]
    drawn.update_xaxes(title_text="length held out", row=1, col=(len(titles) + 1) // 2)
    drawn.update_yaxes(range=[0, 1.05])
    drawn.update_yaxes(title_text="accuracy", row=1, col=1)
    text = (
        "Held-out accuracy of trained weights at 1, 4 and 16 times the training length: softmax with a trained y "
        "stays at 1, linear attention with a trained y falls to 1/2, and with a trained y and X it ends between."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


@drawing
def learned_regression(results: Results) -> Drawing:
    """Softmax regression with trained weights: the accuracy on seen and on held-out examples."""
    drawn = figure("weights and examples", "accuracy", height=420)
    kinds = {"signs": "random signs", "train": "trained,<br>examples seen", "held_out": "trained,<br>held out"}
    most = max(cell.parameters["n"] for cell in results)
    longest = [cell for cell in results if cell.parameters["n"] == most]
    rows: list[Row] = []
    for cell, colour in zip(longest, (BLUE, RED), strict=True):
        mechanism, values = cell.parameters["mechanism"], [cell.result[kind] for kind in kinds]
        means = [mean(seeds) for seeds in values]
        look = {"marker": {"color": colour}, "error_y": _spread(values, GREY)}
        drawn.add_trace(go.Bar(name=mechanism, x=list(kinds.values()), y=means, **look))
        rows += [{"mechanism": mechanism, "kind": kind, **_summary(cell.result[kind])} for kind in kinds]
    drawn.update_layout(barmode="group")
    drawn.update_yaxes(range=[0, 1.05])
    drawn.add_hline(y=0.5, line={"color": GREY, "width": 1, "dash": "dash"})
    accuracy = {cell.parameters["mechanism"]: mean(cell.result["held_out"]) for cell in results}
    n = results[0].parameters["n"]
    text = (
        f"Accuracy in softmax regression at n = {n}, the mean and range over the seeds: with a trained y softmax is at "
        f"{accuracy['softmax']:.2f} on examples held out, and linear attention at {accuracy['linear']:.2f}."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


_SYMBOLS = dict(zip(SETTINGS, ("circle", "square", "diamond"), strict=True))
_COLOURS = dict(zip(MECHANISMS, (BLUE, RED), strict=True))


@Curves(
    series=Curve(
        "least",
        "{mechanism}, {setting}",
        colour=lambda row: _COLOURS[row["mechanism"]],
        symbol=lambda row: _SYMBOLS[row["setting"]],
        size=9,
    ),
    by=("setting", "mechanism"),
    x=Axis("length n", "n", log=True),
    y=Axis("least K", log=True),
    height=460,
    columns=("setting", "mechanism", "n", "on_d0", "on_d1", "least"),
)
def weights_by_hand(results: Results) -> Chart:
    """Weights set by hand: the smallest K for which y = K e_1 fires on D1, against the length."""
    return rows_of(results), (
        "The smallest K for which y = K e_1 fires on D1, against n on logarithmic axes: in all three settings it grows "
        "as n for linear attention, and is about one for softmax."
    )
