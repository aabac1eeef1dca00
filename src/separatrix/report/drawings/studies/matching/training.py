"""Triples by training: accuracy against steps and at the end, heads of order 3 beside heads of order 2."""

from __future__ import annotations

from statistics import fmean

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Chart, Curve, Curves, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, GREEN, ORANGE, Drawing, figure
from separatrix.studies.matching.runs import Summary, summaries
from separatrix.studies.matching.training import PRODUCT, THREE, TWO

_COLOURS = {TWO: ORANGE, THREE: BLUE, PRODUCT: GREEN}
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")


def _name(run: Summary) -> str:
    return f"{run.n}, {run.modulus}"


@Curves(
    series=Curve(
        "mean",
        "{attention}, n = {n}, M = {modulus}",
        lambda row: _COLOURS[row["attention"]],
        symbol=lambda row: row["symbol"],
        size=8,
        spread=("least", "most"),
    ),
    by=("attention", "n", "modulus"),
    x=Axis("steps of training", "step"),
    y=Axis("accuracy on fresh inputs", range=(0.45, 1.02)),
    height=400,
    height_per_trace=20,  # on narrow screens every legend entry takes a separate line
    columns=("attention", "n", "modulus", "step", "mean", "least", "most", "seeds"),
)
def match_training_curves(results: Results) -> Chart:
    """Finding triples: the accuracy of the attentions, against the training step."""
    runs = summaries(results)
    inputs = list(dict.fromkeys((run.n, run.modulus) for run in runs))
    curves = [
        {
            "attention": run.attention,
            "n": run.n,
            "modulus": run.modulus,
            "seeds": run.seeds,
            "symbol": _SYMBOLS[inputs.index((run.n, run.modulus)) % len(_SYMBOLS)],
            "step": run.steps,
            "mean": [fmean(values) for values in run.accuracy],
            "least": [min(values) for values in run.accuracy],
            "most": [max(values) for values in run.accuracy],
        }
        for run in runs
    ]
    ends = {name: [run.mean for run in runs if run.attention == name] for name in _COLOURS}
    return one_row_per_entry(curves, "step", "mean", "least", "most"), (
        "Accuracy against steps of training, mean and range of the seeds: at the end, with as many parameters, "
        + ", ".join(f"{name} is at {min(means):.2f} to {max(means):.2f}" for name, means in ends.items() if means)
        + "."
    )


@drawing
def match_accuracy(results: Results) -> Drawing:
    """Finding triples: the final accuracy of orders 2 and 3, by the length n and the modulus M."""
    drawn = figure("n, M", "accuracy after training", height=460)
    runs = summaries(results)
    rows: list[Row] = []
    for name in (TWO, THREE):
        colour = _COLOURS[name]
        runs_of_order = [run for run in runs if run.attention == name]
        seeds = {"color": colour, "size": 7, "opacity": 0.55}
        drawn.add_trace(
            go.Scatter(
                name=f"{name}, each seed",
                x=[_name(run) for run in runs_of_order for _ in run.accuracy[-1]],
                y=[value for run in runs_of_order for value in run.accuracy[-1]],
                mode="markers",
                marker=seeds,
            )
        )
        mean = [run.mean for run in runs_of_order]
        bar = {"symbol": "line-ew", "size": 26, "line": {"width": 3, "color": colour}}
        names = [_name(run) for run in runs_of_order]
        drawn.add_trace(go.Scatter(name=f"{name}, mean", x=names, y=mean, mode="markers", marker=bar))
        rows += [
            {"attention": name, "n": run.n, "modulus": run.modulus, "accuracy": accuracy, "parameters": run.parameters}
            for run in runs_of_order
            for accuracy in run.accuracy[-1]
        ]
    drawn.update_xaxes(type="category")
    drawn.update_yaxes(range=[0.45, 1.02])
    means = {(run.n, run.modulus, run.attention): run.mean for run in runs}
    leads = {(n, M): means[n, M, THREE] - means[n, M, TWO] for n, M, _ in means}
    (n, M), most = max(leads.items(), key=lambda lead: lead[1])
    text = (
        f"Accuracy after training on {len(leads)} kinds of inputs: order 3 leads by {min(leads.values()):.2f} to "
        f"{most:.2f} in the mean of the seeds, the most at n = {n}, M = {M}, with {means[n, M, THREE]:.2f} against "
        f"{means[n, M, TWO]:.2f}."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
