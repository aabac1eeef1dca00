"""Small models that differ only in their attention: their results by step, at the end, and by compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Drawing, Value, figure
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
}
What = Literal["accuracy", "loss"]


def what_of(results: Results) -> What:
    """The metric of a task: the loss for a text, otherwise the accuracy."""
    return "loss" if "text" in results[0].parameters else "accuracy"


def _plain(ours: Mapping[str, Sequence[CellResult]]) -> str:
    """The attention that the others are compared with: order 2, or layers of it."""
    return next(name for name in ("order 2", *LAYERED, "order 3", *JOINING) if name in ours)


def _axis(results: Results) -> str:
    return "held-out loss, nats per character" if what_of(results) == "loss" else "accuracy on fresh inputs"


def _columns(results: Results) -> dict[str, list[Value]]:
    runs = [
        {**cell.result, "attention": name, "seed": cell.seed, "seconds of the run": cell.seconds}
        for name, cells in by_attention(results).items()
        for cell in cells
    ]
    rows = one_row_per_entry(runs, "step", "accuracy", "loss")
    names = ("attention", "seed", "step", "flops", "accuracy", "loss", "parameters", "seconds of the run")
    return columns_of([{**row, "flops": row["step"] * row["step_flops"]} for row in rows], *names)


def _means(cells: Sequence[CellResult], what: What) -> tuple[list[int], list[float]]:
    steps = list(cells[0].result["step"])
    return steps, [fmean(values) for values in zip(*(cell.result[what] for cell in cells), strict=True)]


@drawing
def learning_curves(results: Results) -> Drawing:
    """Small models with attention of orders 2 and 3: their accuracy or loss, against the training step."""
    what, ours = what_of(results), by_attention(results)
    last = results[0].parameters["steps"]
    drawn = figure("steps of training", _axis(results), height=400 + 20 * len(ours))
    ends: dict[str, float] = {}
    for name, cells in ours.items():
        colour, dash = LINES[name]
        points = [(step, value) for step, value in zip(*_means(cells, what), strict=True) if step <= last]
        # The loss of the initial weights is far off the scale.
        x, y = zip(*(points if what == "accuracy" else points[1:]), strict=True)
        drawn.add_trace(curve(name, x, y, colour, dash=dash, mode="lines"))
        ends[name] = y[-1]
    drawn.update_layout(legend={"y": -0.2})
    best, worst = (pick(ends, key=lambda name: ends[name]) for pick in (max, min))
    text = (
        f"{what.capitalize()} against steps of training, the mean of {len(next(iter(ours.values())))} seeds, "
        f"{len(ours)} attentions with the same number of parameters: after {last} steps from {ends[worst]:.3f} "
        f"({worst}) to "
        f"{ends[best]:.3f} ({best})."
    )
    return Drawing(drawn, text, _columns(results))


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
    return Drawing(drawn, text, _columns(results))


@drawing
def learning_compute(results: Results) -> Drawing:
    """Small models with attention of orders 2 and 3: their accuracy or loss, against the flops of training."""
    what, ours = what_of(results), by_attention(results)
    drawn = figure("flops of training", _axis(results), log_x=True, height=400 + 20 * len(ours))
    for name, cells in ours.items():
        colour, dash = LINES[name]
        steps, values = _means(cells, what)
        spent = [step * cells[0].result["step_flops"] for step in steps]
        drawn.add_trace(curve(name, spent[1:], values[1:], colour, dash=dash, mode="lines"))
    budget = max(cells[0].parameters["compute_steps"] * cells[0].result["step_flops"] for cells in ours.values())
    drawn.add_vline(x=budget, line={"color": GREY, "width": 1, "dash": "dash"})
    drawn.update_layout(legend={"y": -0.2})
    flops = {name: cells[0].result["step_flops"] for name, cells in ours.items()}
    most, plain = max(flops, key=lambda name: flops[name]), _plain(ours)
    text = (
        f"{what.capitalize()} against the flops spent in training, the mean of the seeds, to the same {budget:.2g} for "
        f"all: a step of {most} costs {flops[most] / flops[plain]:.1f} times one of {plain}."
    )
    return Drawing(drawn, text, _columns(results))
