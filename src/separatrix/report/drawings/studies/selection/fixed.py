"""Fixed encodings after training with stochastic ones."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import BLUE, COLOURS, ORANGE, Drawing, Value, figure


@drawing
def fixed_encodings(found: Sequence[Found]) -> Drawing:
    """The loss of each fixed encoding against the threshold, and the two losses of the stochastic transformer."""
    rows = sorted(rows_of(found), key=lambda row: (-int(row["width"]), float(row["threshold"])))
    drawn = figure("largest |<e<sub>i</sub>, e<sub>j</sub>>| allowed", "loss", log_y=True, height=480)
    columns: dict[str, list[Value]] = {name: [] for name in ("width", "threshold", "kind", "loss")}
    for width, colour in zip(dict.fromkeys(row["width"] for row in rows), (BLUE, ORANGE), strict=True):
        line = [row for row in rows if row["width"] == width]
        thresholds = [row["threshold"] for row in line]
        x = [row["threshold"] for row in line for _ in row["each"]]
        y = [loss for row in line for loss in row["each"]]
        marker = {"color": colour, "size": 6, "opacity": 0.5}
        drawn.add_trace(go.Scatter(x=x, y=y, name=f"width {width}, fixed", mode="markers", marker=marker))
        means, of_means = [row["mean"] for row in line], [row["of_mean"] for row in line]
        drawn.add_trace(curve(f"width {width}, mean of the loss", thresholds, means, colour, mode="lines"))
        label = f"width {width}, loss of the mean"
        drawn.add_trace(curve(label, thresholds, of_means, colour, mode="lines", dash="dash"))
        kinds = [("fixed", x, y), ("mean of the loss", thresholds, means), ("loss of the mean", thresholds, of_means)]
        for kind, at, losses in kinds:
            for threshold, loss in zip(at, losses, strict=True):
                for name, value in zip(columns, (width, threshold, kind, loss), strict=True):
                    columns[name].append(value)
    drawn.update_yaxes(dtick="D2")
    paper = next(row for row in rows if (row["width"], row["threshold"]) == (170, 0.4))
    text = (
        "Against the threshold, the loss of each of sixteen fixed encodings: around the mean of the loss, above the "
        f"loss of the mean. At width 170 and threshold 0.4 they are {min(paper['each']):.4f} to "
        f"{max(paper['each']):.4f}, {paper['mean']:.4f} and {paper['of_mean']:.4f}."
    )
    return Drawing(drawn, text, columns)


@drawing
def fixed_encodings_trained(found: Sequence[Found]) -> Drawing:
    """Trained transformers: fixed encodings one by one, beside fresh ones."""
    drawn = figure("fixed encoding", "loss at T<sub>1</sub>")
    columns: dict[str, list[Value]] = {name: [] for name in ("seed", "encoding", "loss", "standard_error")}
    for one, colour in zip(found, COLOURS, strict=False):
        losses, errors = one.result["fixed"], one.result["fixed_error"]
        numbers = list(range(1, len(losses) + 1))
        bars = {"type": "data", "array": [2 * error for error in errors], "thickness": 1}
        name = f"seed {one.seed}, fixed"
        marker = {"color": colour, "size": 8}
        drawn.add_trace(go.Scatter(x=numbers, y=losses, name=name, mode="markers", marker=marker, error_y=bars))
        fresh = one.result["loss"][0]
        ends = [numbers[0], numbers[-1]]
        drawn.add_trace(curve(f"seed {one.seed}, fresh", ends, [fresh, fresh], colour, mode="lines", dash="dash"))
        for encoding, loss, error in zip(
            ["fresh", *map(str, numbers)], [fresh, *losses], [one.result["error"][0], *errors], strict=True
        ):
            for name, value in zip(columns, (one.seed, encoding, loss, error), strict=True):
                columns[name].append(value)
    drawn.update_yaxes(rangemode="tozero")
    text = (
        "The loss of transformers trained with stochastic encodings on eight fixed ones, bars of two standard errors, "
        "beside their loss on fresh ones: the fixed lie around the fresh."
    )
    return Drawing(drawn, text, columns)
