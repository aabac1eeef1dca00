"""Which attention learns sparse token selection."""

from __future__ import annotations

import math
from statistics import fmean, geometric_mean

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Drawing, Value, figure
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


def _columns(results: Results) -> dict[str, list[Value]]:
    runs = [{**cell.parameters, "seed": cell.seed, "step": cell.result["steps"], **cell.result} for cell in results]
    names = ("attention", "encoding", "initial", "lr", "seed", "step", "loss")
    return columns_of(one_row_per_entry(runs, "step", "loss"), *names)


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
    drawn.update_xaxes(dtick="D2")
    drawn.update_yaxes(categoryorder="array", categoryarray=order)
    last, steps = order[::-1], results[0].parameters["steps"]
    first = ", ".join(f"{name} {geometric_mean(ended[name]):.2g}" for name in last[:4])
    text = (
        f"The loss of every attention after {steps} steps, one dot per seed, divided by the loss of answering zero; "
        "the means of the "
        f"best four: {first}; identity was stopped."
    )
    return Drawing(drawn, text, _columns([cell for cells in chosen.values() for cell in cells]))


@drawing
def selection_learning(results: Results) -> Drawing:
    """The loss during training, as the geometric mean over seeds."""
    chosen = best(results)
    drawn = figure("step", "loss / loss of answering zero", log_y=True, height=520)
    for name, cells in chosen.items():
        colour, dash = _LINES[name]
        through = [cell for cell in cells if cell.result["stopped"] is None]
        if not through:
            continue
        steps = through[0].result["steps"]
        losses = [geometric_mean([cell.result["loss"][k] / ZERO for cell in through]) for k in range(len(steps))]
        drawn.add_trace(curve(name, steps, losses, colour, dash=dash, mode="lines"))
    drawn.update_layout(legend={"y": -0.18})
    drawn.update_yaxes(dtick="D2")
    stopped = [name for name, cells in chosen.items() if any(cell.result["stopped"] for cell in cells)]
    text = (
        f"The loss of every attention against the step, the mean of the seeds on a logarithmic axis; not drawn because "
        f"its runs were stopped: {', '.join(stopped) or 'none'}."
    )
    return Drawing(drawn, text, _columns([cell for cells in chosen.values() for cell in cells]))


@drawing
def selection_factors(results: Results) -> Drawing:
    """Sparse token selection: merged and separate query and key weights, from zero and random initialisation."""
    drawn = figure("step", "loss / loss of answering zero", log_y=True)
    for attention, colour in (("softmax W", BLUE), ("softmax QK", ORANGE)):
        for initial, dash in (("zero", "solid"), ("random", "dash")):
            cells = [
                cell
                for cell in results
                if (cell.parameters["attention"], cell.parameters["initial"]) == (attention, initial)
            ]
            steps = cells[0].result["steps"]
            losses = [geometric_mean([cell.result["loss"][k] / ZERO for cell in cells]) for k in range(len(steps))]
            drawn.add_trace(curve(f"{attention}, {initial} start", steps, losses, colour, dash=dash))
    drawn.update_yaxes(dtick="D2")
    stuck = [cell.result["final"] / ZERO for cell in results if _from_zero(cell)]
    text = (
        "The loss against the step: the merged W learns from zero and from a random start, Q and K from a random start "
        f"only; from zero their loss stays at {fmean(stuck):.2f} of answering zero."
    )
    return Drawing(drawn, text, _columns(results))


def _from_zero(cell: CellResult) -> bool:
    return (cell.parameters["attention"], cell.parameters["initial"]) == ("softmax QK", "zero")
