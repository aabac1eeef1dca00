"""Figures 1 to 7 of Wang, Wei, Hsu and Lee: losses and cosines of the training runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.claims.selection.training import Floats, ends, lengths, runs, subsets
from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves, curve, drawing
from separatrix.report.tables import Results, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, ORANGE, Drawing, Value, figure

FAMILIES = {"stochastic": BLUE, "fixed": ORANGE}
_DASHES = ("solid", "dash", "dashdot", "dot")
_LIGHT = {BLUE: "rgba(47, 127, 193, 0.18)", ORANGE: "rgba(230, 159, 0, 0.18)"}


def _mean(group: Sequence[CellResult], pick: Callable[[CellResult], Floats]) -> tuple[Floats, Floats, Floats]:
    """The mean, the minimum and the maximum over seeds."""
    stacked = np.stack([pick(cell) for cell in group])
    return stacked.mean(0), stacked.min(0), stacked.max(0)


def stacked(x: str, upper: str, lower: str, share: float, height: int) -> go.Figure:
    """A figure of two panels over one x axis; the upper panel takes `share` of the height, the lower one is y2."""
    drawing = figure(x, upper, height=height)
    drawing.update_layout(
        xaxis={"anchor": "y2"},
        yaxis={"domain": [1.04 - share, 1]},
        yaxis2={"domain": [0, 0.96 - share], "title": {"text": lower}},
    )
    return drawing


def _band(drawn: go.Figure, x: Sequence[float], low: Floats, high: Floats, colour: str, **place: str) -> None:
    edge = [*high.tolist(), *low.tolist()[::-1]]
    area = {"fill": "toself", "fillcolor": _LIGHT[colour], "line": {"width": 0}, "hoverinfo": "skip", "mode": "lines"}
    drawn.add_trace(go.Scatter(x=[*x, *list(x)[::-1]], y=edge, showlegend=False, **area, **place))


@drawing
def training_loss(results: Results) -> Drawing:
    """Figure 1, left: the training loss and its inverse, with the population loss where it was computed."""
    drawn = stacked("step", "training loss", "inverse loss", 0.5, 560)
    drawn.update_yaxes(type="log", exponentformat="power", selector={"title": {"text": "training loss"}})
    group = runs(results, encoding="stochastic")
    step = group[0].result["step"][1:].tolist()
    loss, low, high = _mean(group, lambda cell: cell.result["loss"][1:])
    columns: dict[str, list[Value]] = {"step": step, "loss": loss.tolist(), "inverse loss": (1 / loss).tolist()}
    for axis, values, extremes in (("y", loss, (low, high)), ("y2", 1 / loss, (1 / high, 1 / low))):
        place = {"yaxis": axis, "showlegend": axis == "y"}
        drawn.add_trace(curve("stochastic encodings", step, values.tolist(), BLUE, mode="lines", **place))
        if len(group) > 1:
            _band(drawn, step, *extremes, BLUE, yaxis=axis)
        for cell in results:
            if "mean of the loss" in cell.result:
                x, y = cell.result["step"], cell.result["mean of the loss"]["loss"]
                kept = x >= step[0]
                known = y[kept] if axis == "y" else 1 / y[kept]
                line = curve("population", x[kept].tolist(), known.tolist(), GREEN, mode="lines", dash="dash", **place)
                drawn.add_trace(line)
    text = (
        f"The training loss with stochastic encodings falls to {loss[-1]:.2g} after {step[-1]:,} steps, and its "
        "inverse grows along a straight line at each rate."
    )
    return Drawing(drawn, text, columns)


@Curves(
    series=[
        Curve(f"{name}, {encoding}", f"{name}, {encoding}", colour, mode="lines", dash=dash)
        for encoding, colour in FAMILIES.items()
        for name, dash in (("W", "solid"), ("V", "dot"))
    ],
    x=Axis("step", "step"),
    y=Axis("cosine to the ground truth"),
    height=380,
)
def ground_truth_cosines(results: Results) -> Chart:
    """Figure 1, right: the cosine similarity of W and V to the ground truth, against the step."""
    groups = {encoding: runs(results, encoding=encoding) for encoding in FAMILIES}
    means = {"step": groups["fixed"][0].result["step"][1:]}
    for encoding, group in groups.items():
        for name in ("W", "V"):
            cosines = [cell.result[f"cosine_{name}"][1:] for cell in group]
            means[f"{name}, {encoding}"] = np.mean(cosines, axis=0)
    rows = one_row_per_entry([means], *means)
    last = rows[-1]
    return rows, (
        f"With stochastic encodings the cosines of W and V to the ground truth end at {last['W, stochastic']:.4f} "
        f"and {last['V, stochastic']:.4f}; with fixed ones W's ends at {last['W, fixed']:.3f}."
    )


def _tasks(results: Results, names: Callable[[CellResult], list[str]]) -> tuple[go.Figure, dict[str, list[Value]]]:
    """The validation losses by step: one colour per architecture, one dash per task, bands for the range over seeds."""
    drawn = figure("step", "validation loss", log_y=True, height=480)
    columns: dict[str, list[Value]] = {}
    for encoding, colour in FAMILIES.items():
        group = runs(results, encoding=encoding, threshold=max(cell.parameters["threshold"] for cell in runs(results)))
        step = group[0].result["step"].tolist()
        columns["step"] = step
        for task, dash in zip(names(group[0]), _DASHES, strict=True):
            at = group[0].result["tasks"].index(task)
            mean, low, high = _mean(group, lambda cell, at=at: cell.result["validation"][:, at])  # type: ignore[misc]
            if len(group) > 1:
                _band(drawn, step, low, high, colour)
            drawn.add_trace(curve(f"{task}, {encoding}", step, mean.tolist(), colour, mode="lines", dash=dash))
            columns[f"{task}, {encoding}"] = mean.tolist()
    return drawn, columns


def _range(results: Results, encoding: str, names: Callable[[CellResult], list[str]]) -> str:
    values = [ends(cell)[task] for cell in runs(results, encoding=encoding) for task in names(cell)]
    return f"{min(values):.3g} to {max(values):.3g}"


@drawing
def length_tasks(results: Results) -> Drawing:
    """Figures 2 and 4 to 7, top: the validation losses for longer sequences, against the step."""
    drawn, columns = _tasks(results, lengths)
    text = (
        f"On longer sequences stochastic encodings end at losses of {_range(results, 'stochastic', lengths)}, and "
        f"fixed ones at {_range(results, 'fixed', lengths)}."
    )
    return Drawing(drawn, text, columns)


@drawing
def subset_tasks(results: Results) -> Drawing:
    """Figures 4 to 7, bottom: the validation losses for larger subsets, against the step."""
    drawn, columns = _tasks(results, subsets)
    text = (
        f"On larger subsets stochastic encodings end at losses of {_range(results, 'stochastic', subsets)}, and "
        f"fixed ones at {_range(results, 'fixed', subsets)}."
    )
    return Drawing(drawn, text, columns)


@Curves(
    series=Curve("mean", "{task}", spread=("least", "largest"), spread_thickness=2),
    by=("task",),
    x=Axis("dot-product threshold of the encodings", "threshold"),
    y=Axis("validation loss at the end"),
    bound=Bound("0.15", 0.15),
)
def fixed_floor(results: Results) -> Chart:
    """Figure 4: the final losses of fixed encodings by length and dot-product threshold, and the paper's 0.15."""
    fixed = runs(results, encoding="fixed")
    thresholds = sorted({cell.parameters["threshold"] for cell in fixed})
    rows = []
    for task in lengths(fixed[0]):
        for threshold in thresholds:
            losses = [ends(cell)[task] for cell in runs(results, encoding="fixed", threshold=threshold)]
            spread = {"mean": float(np.mean(losses)), "least": min(losses), "largest": max(losses)}
            rows.append({"task": task, "threshold": threshold, **spread})
    table = [
        {"threshold": threshold, **{row["task"]: row["mean"] for row in rows if row["threshold"] == threshold}}
        for threshold in thresholds
    ]
    least = min(row["mean"] for row in rows)
    text = (
        "The final validation loss of fixed encodings, against the threshold on their dot products, for each longer "
        f"length, with the range over seeds: the smallest is {least:.3f}; the paper states at least 0.15."
    )
    return rows, text, table
