"""Length generalisation of sparse token selection as curves."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import curve, drawing, tick_labels
from separatrix.report.tables import Results, Row, columns_of, rows_of
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, Drawing, figure
from separatrix.studies.selection.length import grouped


@drawing
def length_population(results: Results) -> Drawing:
    """Length generalisation with orthonormal encodings: the ratio of losses at several stages of training."""
    rows = sorted(rows_of(results), key=lambda row: int(row["T1"]))
    row = rows[-1]
    T1 = int(row["T1"])
    drawn = figure(
        "T<sub>2</sub> / T<sub>1</sub>", "loss at T<sub>2</sub> / loss at T<sub>1</sub>", log_y=True, height=460
    )
    x = [length / T1 for length in row["lengths"]]
    indices = [0, 1, 2, 4]
    for at, colour in zip(indices, COLOURS, strict=False):
        label = f"training loss {row['trained'][at]:.2g}"
        drawn.add_trace(curve(label, x, row["ratios"][at], colour))
    drawn.add_trace(curve("the limit", x, row["limit"], RED, mode="lines", dash="dash"))
    squares = [value**2 for value in x]
    name = "T<sub>2</sub><sup>2</sup> / T<sub>1</sub><sup>2</sup>"
    drawn.add_trace(curve(name, x, squares, GREY, mode="lines", dash="dot"))
    drawn.update_xaxes(**tick_labels([1, 2, 3, 5, 10]))
    table = [
        {"T1": cell["T1"], "T2": T2, "training_loss": loss, "ratio": ratio, "limit": limit}
        for cell in rows
        for loss, ratios in zip(cell["trained"], cell["ratios"], strict=True)
        for T2, ratio, limit in zip(cell["lengths"], ratios, cell["limit"], strict=True)
    ]
    double = x.index(2.0)
    text = (
        f"The loss at T2 over the loss at T1 = {T1} against T2/T1, orthonormal encodings: as training goes on it rises "
        f"to its limit, {row['limit'][double]:.0f} at twice the length, where T2^2/T1^2 is 4."
    )
    return Drawing(drawn, text, columns_of(table, *table[0]))


@drawing
def length_curve(results: Results) -> Drawing:
    """Length generalisation: the ratio of losses for orthonormal, random and trained encodings."""
    groups = sorted(grouped(results), key=lambda pair: int(pair[0].parameters["T1"]))
    drawn = figure("T<sub>2</sub>", "loss at T<sub>2</sub> / loss at T<sub>1</sub>", log_x=True, log_y=True, height=500)
    table: list[Row] = []
    for (sampled, runs), (first, second) in zip(groups, ((BLUE, ORANGE), (GREEN, RED)), strict=False):
        T1, lengths, result = int(sampled.parameters["T1"]), sampled.parameters["lengths"], sampled.result
        start = lengths.index(T1)
        orthonormal = [loss / result["orthonormal_trained"] for loss in result["orthonormal"]]
        of = f"T<sub>1</sub> = {T1}"
        lines = {
            "orthonormal, same training loss": (orthonormal, GREY, "dot" if first == BLUE else "dash"),
            "mean of the loss": ([loss / result["mean"][start] for loss in result["mean"]], first, "solid"),
            "loss of the mean": ([loss / result["of_mean"][start] for loss in result["of_mean"]], second, "dash"),
        }
        for name, (ratios, colour, dash) in lines.items():
            drawn.add_trace(curve(f"{of}, {name}", lengths, ratios, colour, dash=dash, mode="lines"))
        losses = (result["orthonormal"], result["mean"], result["of_mean"])
        for (name, (ratios, _, _)), kept in zip(lines.items(), losses, strict=True):
            table += _rows(T1, name, sampled.seed, lengths, kept, ratios)
        for run in runs:
            marker = {"color": first, "size": 11, "symbol": "circle-open", "line": {"width": 2}}
            ratios = [loss / run.result["loss"][start] for loss in run.result["loss"]]
            name = f"{of}, trained, seed {run.seed}"
            drawn.add_trace(go.Scatter(x=lengths, y=ratios, name=name, mode="markers", marker=marker))
            table += _rows(T1, "trained", run.seed, lengths, run.result["loss"], ratios)
    last, _ = groups[-1]
    T1, lengths = int(last.parameters["T1"]), last.parameters["lengths"]
    doubled = last.result["mean"][lengths.index(2 * T1)] / last.result["mean"][lengths.index(T1)]
    ideal = last.result["orthonormal"][lengths.index(2 * T1)] / last.result["orthonormal_trained"]
    text = (
        f"The loss at T2 over the training loss at T1 against T2 up to {lengths[-1]:,}, on logarithmic axes: "
        f"{doubled:.1f} at twice T1 = {T1} with random encodings, {ideal:.1f} with orthonormal ones trained to the "
        "same loss; trained transformers lie on the curve."
    )
    return Drawing(drawn, text, columns_of(table, *table[0]))


def _rows(T1: int, kind: str, seed: int, lengths: Sequence[int], *losses: Sequence[float]) -> list[Row]:
    """The losses of one kind at every length, and their ratios to the loss at T1."""
    table = zip(lengths, *losses, strict=True)
    return [{"T1": T1, "T2": T2, "kind": kind, "seed": seed, "loss": loss, "ratio": ratio} for T2, loss, ratio in table]
