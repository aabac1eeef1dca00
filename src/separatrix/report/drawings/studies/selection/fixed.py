"""Fixed encodings after training with stochastic ones."""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Chart, Curve, Curves, curve, drawing
from separatrix.report.tables import Results, Row, columns_of, rows_of
from separatrix.report.theme import BLUE, COLOURS, ORANGE, Drawing, figure

_KINDS = {
    "fixed": Curve("fixed", "width {width}, fixed", mode="markers", size=6, opacity=0.5),
    "mean": Curve("mean of the loss", "width {width}, mean of the loss", mode="lines"),
    "of_mean": Curve("loss of the mean", "width {width}, loss of the mean", mode="lines", dash="dash"),
}


@Curves(
    series=list(_KINDS.values()),
    by=("width",),
    x=Axis("largest |<e<sub>i</sub>, e<sub>j</sub>>| allowed", "threshold"),
    y=Axis("loss", log=True, dtick="D2"),
    height=480,
    colours=(BLUE, ORANGE),
    columns=("width", "threshold", "kind", "loss"),
)
def fixed_encodings(results: Results) -> Chart:
    """Fixed positional encodings: the loss, against the threshold on their dot products."""
    cells = sorted(rows_of(results), key=lambda row: (-int(row["width"]), float(row["threshold"])))
    rows = [
        {"width": row["width"], "threshold": row["threshold"], "kind": series.column, "loss": loss}
        for width in dict.fromkeys(row["width"] for row in cells)
        for entry, series in _KINDS.items()
        for row in cells
        if row["width"] == width
        for loss in (row["each"] if entry == "fixed" else [row[entry]])
    ]
    paper = next(row for row in cells if (row["width"], row["threshold"]) == (170, 0.4))
    return [{**row, row["kind"]: row["loss"]} for row in rows], (
        "Against the threshold, the loss of each of sixteen fixed encodings: around the mean of the loss, above the "
        f"loss of the mean. At width 170 and threshold 0.4 they are {min(paper['each']):.4f} to "
        f"{max(paper['each']):.4f}, {paper['mean']:.4f} and {paper['of_mean']:.4f}."
    )


@drawing
def fixed_encodings_trained(results: Results) -> Drawing:
    """Trained transformers: the losses of single fixed encodings and of fresh ones."""
    drawn = figure("fixed encoding", "loss at T<sub>1</sub>")
    rows: list[Row] = []
    for cell, colour in zip(results, COLOURS, strict=False):
        losses, errors = cell.result["fixed"], cell.result["fixed_error"]
        fresh, fresh_error = cell.result["loss"][0], cell.result["error"][0]
        numbers = list(range(1, len(losses) + 1))
        bars = {"type": "data", "array": [2 * error for error in errors], "thickness": 1}
        marker = {"color": colour, "size": 8}
        name = f"seed {cell.seed}, fixed"
        drawn.add_trace(go.Scatter(x=numbers, y=losses, name=name, mode="markers", marker=marker, error_y=bars))
        ends = [numbers[0], numbers[-1]]
        drawn.add_trace(curve(f"seed {cell.seed}, fresh", ends, [fresh, fresh], colour, mode="lines", dash="dash"))
        table = zip(["fresh", *map(str, numbers)], [fresh, *losses], [fresh_error, *errors], strict=True)
        rows += [
            {"seed": cell.seed, "encoding": encoding, "loss": loss, "standard_error": error}
            for encoding, loss, error in table
        ]
    drawn.update_yaxes(rangemode="tozero")
    text = (
        "Transformers trained with stochastic encodings: the loss with each of eight fixed encodings, with bars of "
        "two standard errors, is close to the loss with fresh encodings."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
