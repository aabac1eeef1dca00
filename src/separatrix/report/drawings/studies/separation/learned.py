"""Learned weights: accuracy at the length of training and beyond, softmax regression, and the weights set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREY, ORANGE, RED, SKY, THEME, Drawing, Value, figure
from separatrix.studies.separation.learned import FACTORS, MECHANISMS, SETTINGS

_LOOK = {
    ("softmax", "y"): (BLUE, "solid", "circle"),
    ("softmax", "y and X"): (SKY, "dash", "square"),
    ("linear", "y"): (RED, "solid", "circle"),
    ("linear", "y and X"): (ORANGE, "dash", "square"),
}


def _spread(values: Sequence[Sequence[float]], colour: str) -> dict[str, Any]:
    """From the least to the largest over the seeds, around the mean."""
    return {
        "array": [max(one) - mean(one) for one in values],
        "arrayminus": [mean(one) - min(one) for one in values],
        "color": colour,
        "thickness": 1,
    }


@drawing
def learned_accuracy(found: Sequence[Found]) -> Drawing:
    """Held-out accuracy at n, 4 n and 16 n, a setting a panel: means over the seeds, and their range."""
    titles = [setting.replace(", ", ",<br>") for setting in SETTINGS]
    drawn = make_subplots(rows=1, cols=len(titles), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    drawn.update_layout(template=THEME, height=460, margin={"t": 60})
    drawn.update_annotations(font_size=12)
    lengths = [("n" if factor == 1 else f"{factor} n") for factor in FACTORS]
    names = ("setting", "mechanism", "trained", "length", "mean", "least", "largest")
    columns: dict[str, list[Value]] = {name: [] for name in names}
    for one in found:
        setting, mechanism, trained = (one.parameters[key] for key in names[:3])
        colour, dash, symbol = _LOOK[mechanism, trained]
        values, at = one.result["held_out"], 1 + SETTINGS.index(setting)
        label = f"{mechanism}, {trained}"
        drawn.add_trace(
            curve(
                label, lengths, [mean(each) for each in values], colour, dash=dash, error_y=_spread(values, colour),
                marker={"symbol": symbol, "size": 8}, legendgroup=label, showlegend=at == 1,
            ),
            row=1, col=at,
        )  # fmt: skip
        for length, each in zip(lengths, values, strict=True):
            row = (setting, mechanism, trained, length, mean(each), min(each), max(each))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    drawn.update_xaxes(title_text="length held out", row=1, col=(len(titles) + 1) // 2)
    drawn.update_yaxes(range=[0, 1.05])
    drawn.update_yaxes(title_text="accuracy", row=1, col=1)
    text = (
        "Held-out accuracy of trained weights at the length of training, 4 and 16 times it: softmax with a trained y "
        "stays at one, linear attention with a trained y falls to one half, and with a trained X too it keeps a part."
    )
    return Drawing(drawn, text, columns)


@drawing
def learned_regression(found: Sequence[Found]) -> Drawing:
    """Softmax regression: accuracy with random signs, on the examples seen and on others, over the seeds."""
    drawn = figure("", "accuracy", height=420)
    kinds = {"signs": "random signs", "train": "trained,<br>examples seen", "held_out": "trained,<br>held out"}
    columns: dict[str, list[Value]] = {name: [] for name in ("mechanism", "kind", "mean", "least", "largest")}
    most = max(one.parameters["n"] for one in found)
    longest = [one for one in found if one.parameters["n"] == most]
    for one, colour in zip(longest, (BLUE, RED), strict=True):
        values = [one.result[kind] for kind in kinds]
        means = [mean(each) for each in values]
        drawn.add_trace(
            go.Bar(
                name=one.parameters["mechanism"], x=list(kinds.values()), y=means,
                marker={"color": colour}, error_y=_spread(values, GREY),
            )
        )  # fmt: skip
        for kind, each in zip(kinds, values, strict=True):
            for column, value in zip(
                columns.values(), (one.parameters["mechanism"], kind, mean(each), min(each), max(each)), strict=True
            ):
                column.append(value)
    drawn.update_layout(barmode="group")
    drawn.update_xaxes(title_text="weights and examples")
    drawn.update_yaxes(range=[0, 1.05])
    drawn.add_hline(y=0.5, line={"color": GREY, "width": 1, "dash": "dash"})
    held = {one.parameters["mechanism"]: mean(one.result["held_out"]) for one in found}
    n = found[0].parameters["n"]
    text = (
        f"Accuracy in softmax regression at n = {n}, the mean and range over the seeds: with a trained y softmax is at "
        f"{held['softmax']:.2f} on examples held out, and linear attention at {held['linear']:.2f}."
    )
    return Drawing(drawn, text, columns)


@drawing
def weights_by_hand(found: Sequence[Found]) -> Drawing:
    """The least K for which K e_1 fires on D1, against n."""
    rows = rows_of(found)
    drawn = figure("length n", "least K", log_x=True, log_y=True, height=460)
    for setting, symbol in zip(SETTINGS, ("circle", "square", "diamond"), strict=True):
        for mechanism, colour in zip(MECHANISMS, (BLUE, RED), strict=True):
            line = [row for row in rows if (row["setting"], row["mechanism"]) == (setting, mechanism)]
            x, y = [row["n"] for row in line], [row["least"] for row in line]
            marker = {"symbol": symbol, "size": 9}
            drawn.add_trace(curve(f"{mechanism}, {setting}", x, y, colour, marker=marker))
    text = (
        "The least K for which y = K e_1 fires on D1, against n on logarithmic axes: in all three settings it grows as "
        "n for linear attention, and is about one for softmax."
    )
    return Drawing(drawn, text, columns_of(rows, "setting", "mechanism", "n", "on_d0", "on_d1", "least"))
