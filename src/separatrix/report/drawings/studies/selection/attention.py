"""Figures of the attentions that learn sparse token selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, geometric_mean

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.report.charts import Axis, Chart, Curve, Curves, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Drawing, figure
from separatrix.studies.selection.attention import ZERO, best

_LINES = {
    "softmax W": (BLUE, "solid"),
    "softmax QK": (BLUE, "dash"),
    "identity": (GREY, "longdash"),
    "elu": (ORANGE, "solid"),
    "relu": (GREEN, "solid"),
    "taylor2": (RED, "solid"),
    "random_positive": (PURPLE, "solid"),
    "unnormalised": (SKY, "solid"),
    "order 3": (GREY, "solid"),
    "order 3 biased": (GREY, "dot"),
}


_COLUMNS = ("attention", "encoding", "initial", "lr", "seed", "step", "loss")


def _table(results: Results) -> list[Row]:
    runs = [{**cell.parameters, "seed": cell.seed, "step": cell.result["steps"], **cell.result} for cell in results]
    return one_row_per_entry(runs, "step", "loss")


def _mean_curve(cells: Sequence[CellResult], **columns: str) -> list[Row]:
    """The geometric mean over cells of the loss of each step, divided by the loss of answering zero."""
    losses = zip(*(cell.result["loss"] for cell in cells), strict=True)
    means = [geometric_mean([loss / ZERO for loss in at_step]) for at_step in losses]
    return one_row_per_entry([{**columns, "step": cells[0].result["steps"], "mean": means}], "step", "mean")


@drawing
def selection_learners(results: Results) -> Drawing:
    """The final loss of every attention, one dot per seed."""
    chosen = best(results)
    finals = {name: [cell.result["final"] for cell in cells] for name, cells in chosen.items()}
    ended = {name: [loss / ZERO for loss in losses if loss is not None] for name, losses in finals.items()}
    order = sorted(ended, key=lambda name: geometric_mean(ended[name]) if ended[name] else math.inf, reverse=True)
    drawn = figure("loss / loss of zero", "attention", log_x=True, height=440)
    for name in order:
        colour = _LINES[name][0]
        marker = {"color": colour, "size": 11, "opacity": 0.75}
        stopped = len(finals[name]) - len(ended[name])
        if ended[name]:
            dots = {"x": ended[name], "y": [name] * len(ended[name])}
            drawn.add_trace(go.Scatter(**dots, name=name, mode="markers", marker=marker, showlegend=False))
        if stopped:
            label = {"text": [f"stopped in {stopped} of {len(finals[name])} seeds"], "textposition": "middle left"}
            cross = {"symbol": "x", "color": colour, "size": 11}
            drawn.add_trace(
                go.Scatter(x=[1.0], y=[name], name=name, mode="markers+text", marker=cross, showlegend=False, **label)
            )
    drawn.add_vline(x=1, line={"color": GREY, "width": 1, "dash": "dash"})
    drawn.update_xaxes(dtick=1)
    drawn.update_yaxes(categoryorder="array", categoryarray=order)
    last, steps = order[::-1], results[0].parameters["steps"]
    first = ", ".join(f"{name} {geometric_mean(ended[name]):.2g}" for name in last[:4])
    text = (
        f"The loss of every attention after {steps} steps, one dot per seed, divided by the loss of answering zero; "
        f"the means of the best four: {first}; identity was stopped."
    )
    return Drawing(drawn, text, columns_of(_table([cell for cells in chosen.values() for cell in cells]), *_COLUMNS))


@Curves(
    series=Curve(
        "mean",
        "{attention}",
        lambda row: _LINES[row["attention"]][0],
        dash=lambda row: _LINES[row["attention"]][1],
        mode="lines",
    ),
    by=("attention",),
    x=Axis("step", "step"),
    y=Axis("loss / loss of answering zero", log=True, dtick="D2"),
    height=520,
    legend_y=-0.18,
    columns=_COLUMNS,
)
def selection_learning(results: Results) -> Chart:
    """The loss during training, as the geometric mean over seeds."""
    chosen = best(results)
    rows = []
    for name, cells in chosen.items():
        through = [cell for cell in cells if cell.result["stopped"] is None]
        rows += _mean_curve(through, attention=name) if through else []
    stopped = [name for name, cells in chosen.items() if any(cell.result["stopped"] for cell in cells)]
    text = (
        f"The loss of every attention against the step, the mean of the seeds on a logarithmic axis; not drawn because "
        f"its runs were stopped: {', '.join(stopped) or 'none'}."
    )
    return rows, text, _table([cell for cells in chosen.values() for cell in cells])


_STARTS = {
    (attention, initial): (colour, dash)
    for attention, colour in (("softmax W", BLUE), ("softmax QK", ORANGE))
    for initial, dash in (("zero", "solid"), ("random", "dash"))
}


@Curves(
    series=Curve(
        "mean",
        "{attention}, {initial} start",
        lambda row: _STARTS[row["attention"], row["initial"]][0],
        dash=lambda row: _STARTS[row["attention"], row["initial"]][1],
    ),
    by=("attention", "initial"),
    x=Axis("step", "step"),
    y=Axis("loss / loss of answering zero", log=True, dtick="D2"),
    columns=_COLUMNS,
)
def selection_factors(results: Results) -> Chart:
    """Sparse token selection: merged and separate query and key weights, from zero and random initialisation."""
    rows = []
    for attention, initial in _STARTS:
        start = {"attention": attention, "initial": initial}
        rows += _mean_curve([cell for cell in results if start.items() <= cell.parameters.items()], **start)
    start = {"attention": "softmax QK", "initial": "zero"}
    stuck = [cell.result["final"] / ZERO for cell in results if start.items() <= cell.parameters.items()]
    text = (
        "The loss against the step: the merged W learns from zero and from a random start, Q and K from a random start "
        f"only; from zero their loss stays at {fmean(stuck):.2f} of answering zero."
    )
    return rows, text, _table(results)
