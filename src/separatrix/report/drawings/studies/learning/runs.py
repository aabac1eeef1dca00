"""Small models that differ only in their attention: their results by step, at the end, and by compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.report.charts import Axis, Chart, Curve, Curves, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Drawing, figure
from separatrix.studies.learning.mechanisms import JOINING, LAYERED
from separatrix.studies.learning.runs import READINGS, at, by_attention
from separatrix.studies.seeds import interval

LINES = {
    "linear elu": (GREEN, "solid"),
    "linear taylor2": (GREEN, "dash"),
    "order 2": (ORANGE, "solid"),
    "order 2, R = 4": (ORANGE, "dash"),
    "order 2, two layers": (RED, "solid"),
    "order 3, R = 0.5": (SKY, "dot"),
    "order 3, R = 1": (SKY, "dash"),
    "order 3, R = 2": (SKY, "solid"),
    "order 3, R = 4": (PURPLE, "solid"),
    "order 3": (BLUE, "solid"),
    "four layers of order 2": (ORANGE, "solid"),
    "four layers, the last of order 3": (BLUE, "solid"),
    "order 2, both norms": (ORANGE, "solid"),
    "order 2, two layers, both norms": (RED, "solid"),
    "product of two order 2, both norms": (GREY, "solid"),
    "order 3, both norms": (SKY, "solid"),
    "pairwise order 3, both norms": (GREEN, "solid"),
    "determinant order 3, both norms": (PURPLE, "solid"),
    "orders 2 and 3 mixed, both norms": (BLUE, "dash"),
    "product of two order 2": (GREY, "solid"),
    "order 3, scale 1/d": (BLUE, "dash"),
    "order 3, qk_norm": (GREEN, "solid"),
    "order 3, head_norm": (ORANGE, "solid"),
    "order 3, learned_scale": (PURPLE, "solid"),
    "order 3, LayerNorm after": (RED, "solid"),
    "order 3, value_norm": (SKY, "dash"),
    "orders 2 and 3 mixed": (GREEN, "dash"),
}
What = Literal["accuracy", "loss"]
_COLUMNS = ("attention", "seed", "step", "flops", "accuracy", "loss", "parameters", "seconds of the run")


def colour_of(row: Row) -> str:
    """The colour of the attention of a row."""
    return LINES[row["attention"]][0]


def dash_of(row: Row) -> str:
    """The dash of the attention of a row."""
    return LINES[row["attention"]][1]


def what_of(results: Results) -> What:
    """The metric of a task: the loss for a text, otherwise the accuracy."""
    return "loss" if "text" in results[0].parameters else "accuracy"


def _plain(ours: Mapping[str, Sequence[CellResult]]) -> str:
    """The baseline attention: order 2, or several layers of order 2."""
    return next(name for name in ("order 2", *LAYERED, "order 3", *JOINING) if name in ours)


def _axis(results: Results) -> str:
    return "held-out loss, nats" if what_of(results) == "loss" else "accuracy on fresh inputs"


def _table(results: Results) -> list[Row]:
    runs = [
        {**cell.result, "attention": name, "seed": cell.seed, "seconds of the run": cell.seconds}
        for name, cells in by_attention(results).items()
        for cell in cells
    ]
    rows = one_row_per_entry(runs, "step", "accuracy", "loss")
    return [{**row, "flops": row["step"] * row["step_flops"]} for row in rows]


def seed_means(cells: Sequence[CellResult], name: str) -> list[float]:
    """The mean over cells of each value of an entry of their results."""
    return [fmean(values) for values in zip(*(cell.result[name] for cell in cells), strict=True)]


def _curves(results: Results) -> list[Row]:
    """The mean of the metric over seeds, by attention and step, and the flops spent until then."""
    curves = [
        {
            "attention": name,
            "axis": _axis(results),
            "step": cells[0].result["step"],
            "flops": [step * cells[0].result["step_flops"] for step in cells[0].result["step"]],
            "mean": seed_means(cells, what_of(results)),
        }
        for name, cells in by_attention(results).items()
    ]
    return one_row_per_entry(curves, "step", "flops", "mean")


@Curves(
    series=Curve("mean", "{attention}", colour_of, dash=dash_of, mode="lines"),
    by=("attention",),
    x=Axis("steps of training", "step"),
    y=Axis("{axis}"),
    height=400,
    height_per_trace=20,
    legend_y=-0.2,
    columns=_COLUMNS,
)
def learning_curves(results: Results) -> Chart:
    """Small models with attention of orders 2 and 3: their accuracy or loss, against the training step."""
    what, ours = what_of(results), by_attention(results)
    last = results[0].parameters["steps"]
    # The loss of the initial weights is far off the scale.
    rows = [row for row in _curves(results) if (what == "accuracy" or row["step"] > 0) and row["step"] <= last]
    ends = {row["attention"]: row["mean"] for row in rows}
    best, worst = (pick(ends, key=lambda name: ends[name]) for pick in (max, min))
    text = (
        f"{what.capitalize()} against steps of training, the mean of {len(next(iter(ours.values())))} seeds, "
        f"{len(ours)} attentions with the same number of parameters: after {last} steps from {ends[worst]:.3f} "
        f"({worst}) to {ends[best]:.3f} ({best})."
    )
    return rows, text, _table(results)


@drawing
def learning_ends(results: Results) -> Drawing:
    """Small models with attention of orders 2 and 3 at equal steps and at equal compute, with 95% intervals."""
    what, ours = what_of(results), by_attention(results)
    drawn = figure(_axis(results), "", height=220 + 40 * len(ours))
    names = list(ours)
    means: dict[str, dict[str, float]] = {}
    for (reading, words), colour, shift in zip(READINGS.items(), (BLUE, ORANGE), (0.15, -0.15), strict=True):
        values = [[at(cell, reading, what) for cell in cells] for cells in ours.values()]
        bars = [interval(seeds) for seeds in values]
        means[words] = {name: bar.value for name, bar in zip(names, bars, strict=True)}
        spread = {"type": "data", "array": [bar.high - bar.value for bar in bars], "thickness": 1.5, "width": 5}
        rows = [place + shift for place in range(len(names))]
        marker = {"color": colour, "size": 10, "symbol": "line-ns", "line": {"width": 3, "color": colour}}
        drawn.add_trace(
            go.Scatter(
                name=f"{words}, mean and 95% interval",
                x=[bar.value for bar in bars],
                y=rows,
                error_x=spread,
                text=names,
                mode="markers",
                marker=marker,
            )
        )
        dots = {"color": colour, "size": 7, "opacity": 0.5}
        x = [value for seeds in values for value in seeds]
        y = [row for row, seeds in zip(rows, values, strict=True) for _ in seeds]
        drawn.add_trace(go.Scatter(name=f"{words}, each seed", x=x, y=y, mode="markers", marker=dots))
    every = [value for trace in drawn.data[1::2] for value in trace.x]
    edge = 0.06 * (max(every) - min(every)) + 1e-3
    drawn.update_xaxes(range=[min(every) - edge, max(every) + edge])
    drawn.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.6, len(names) - 0.4])
    drawn.update_layout(legend={"y": -60 / (40 * len(ours) + 30)})  # sixty pixels below the axis
    compute = means["equal compute"]
    best = (max if what == "accuracy" else min)(compute, key=lambda name: compute[name])
    text = (
        f"{what.capitalize()} of {len(names)} attentions at equal steps and at equal compute, each seed and the mean "
        f"with its 95% interval (cut off at the edge): at equal compute {best} is first with {compute[best]:.3f}, and "
        f"{_plain(ours)} has {compute[_plain(ours)]:.3f}."
    )
    return Drawing(drawn, text, columns_of(_table(results), *_COLUMNS))


@Curves(
    series=Curve("mean", "{attention}", colour_of, dash=dash_of, mode="lines"),
    by=("attention",),
    x=Axis("flops of training", "flops", log=True),
    y=Axis("{axis}"),
    height=400,
    height_per_trace=20,
    legend_y=-0.2,
    vertical="budget",
    columns=_COLUMNS,
)
def learning_compute(results: Results) -> Chart:
    """Small models with attention of orders 2 and 3: their accuracy or loss, against the flops of training."""
    ours = by_attention(results)
    budget = max(cells[0].parameters["compute_steps"] * cells[0].result["step_flops"] for cells in ours.values())
    rows = [{**row, "budget": budget} for row in _curves(results) if row["step"] > 0]
    flops = {name: cells[0].result["step_flops"] for name, cells in ours.items()}
    most, plain = max(flops, key=lambda name: flops[name]), _plain(ours)
    text = (
        f"{what_of(results).capitalize()} against the flops spent in training, the mean of the seeds, to the same "
        f"{budget:.2g} for all: a step of {most} costs {flops[most] / flops[plain]:.1f} times one of {plain}."
    )
    return rows, text, _table(results)
