"""Triples by training: accuracy against steps and at the end, heads of order 3 beside heads of order 2."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, ORANGE, Drawing, Value, figure
from separatrix.studies.matching.runs import Summary, summaries

_ORDERS = {2: ORANGE, 3: BLUE}
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")


def _name(one: Summary) -> str:
    return f"{one.n}, {one.modulus}"


@drawing
def match_training_curves(found: Sequence[Found]) -> Drawing:
    """Accuracy against steps, the mean of the seeds, for both orders."""
    runs = summaries(found)
    # A phone puts every name of the legend on a line of its own.
    drawn = figure("steps of training", "accuracy on fresh inputs", height=400 + 20 * len(runs))
    settings = list(dict.fromkeys((one.n, one.modulus) for one in runs))
    columns: dict[str, list[Value]] = {
        name: [] for name in ("order", "n", "modulus", "step", "mean", "least", "most", "seeds")
    }
    for one in runs:
        symbol = _SYMBOLS[settings.index((one.n, one.modulus)) % len(_SYMBOLS)]
        mean = [sum(values) / len(values) for values in one.accuracy]
        least, most = ([edge(values) for values in one.accuracy] for edge in (min, max))
        spread = {
            "array": [b - a for a, b in zip(mean, most, strict=True)],
            "arrayminus": [b - a for a, b in zip(least, mean, strict=True)],
            "thickness": 1,
        }
        label = f"order {one.order}, n = {one.n}, M = {one.modulus}"
        drawn.add_trace(
            curve(label, one.steps, mean, _ORDERS[one.order], marker={"symbol": symbol, "size": 8}, error_y=spread)
        )
        for values in zip(one.steps, mean, least, most, strict=True):
            for name, value in zip(columns, (one.order, one.n, one.modulus, *values, one.seeds), strict=True):
                columns[name].append(value)
    drawn.update_yaxes(range=[0.45, 1.02])
    ends = {order: [one.mean for one in runs if one.order == order] for order in sorted(_ORDERS)}
    text = (
        "Accuracy against steps of training, mean and range of the seeds: at the end heads of order 3 are at "
        f"{min(ends[3]):.2f} to {max(ends[3]):.2f} and heads of order 2 with as many parameters at "
        f"{min(ends[2]):.2f} to {max(ends[2]):.2f}."
    )
    return Drawing(drawn, text, columns)


@drawing
def match_accuracy(found: Sequence[Found]) -> Drawing:
    """Accuracy at the end of training, each seed and the mean, by n and M."""
    drawn = figure("n, M", "accuracy after training", height=460)
    runs = summaries(found)
    columns: dict[str, list[Value]] = {name: [] for name in ("order", "n", "modulus", "accuracy", "parameters")}
    for order, colour in _ORDERS.items():
        mine = [one for one in runs if one.order == order]
        seeds = {"color": colour, "size": 7, "opacity": 0.55}
        drawn.add_trace(
            go.Scatter(
                name=f"order {order}, each seed",
                x=[_name(one) for one in mine for _ in one.accuracy[-1]],
                y=[value for one in mine for value in one.accuracy[-1]],
                mode="markers",
                marker=seeds,
            )
        )
        mean = [one.mean for one in mine]
        bar = {"symbol": "line-ew", "size": 26, "line": {"width": 3, "color": colour}}
        names = [_name(one) for one in mine]
        drawn.add_trace(go.Scatter(name=f"order {order}, mean", x=names, y=mean, mode="markers", marker=bar))
        for one in mine:
            for accuracy in one.accuracy[-1]:
                for name, value in zip(columns, (order, one.n, one.modulus, accuracy, one.parameters), strict=True):
                    columns[name].append(value)
    drawn.update_xaxes(type="category")
    drawn.update_yaxes(range=[0.45, 1.02])
    means = {(one.n, one.modulus, one.order): one.mean for one in runs}
    leads = {(n, M): means[n, M, 3] - means[n, M, 2] for n, M, _ in means}
    (n, M), most = max(leads.items(), key=lambda lead: lead[1])
    text = (
        f"Accuracy after training on {len(leads)} kinds of inputs: order 3 leads by {min(leads.values()):.2f} to "
        f"{most:.2f} in the mean of the seeds, by most at n = {n}, M = {M}, with {means[n, M, 3]:.2f} against "
        f"{means[n, M, 2]:.2f}."
    )
    return Drawing(drawn, text, columns)
