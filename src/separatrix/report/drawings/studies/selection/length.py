"""Length generalisation of sparse token selection as curves."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Chart, Curve, Curves, curve, drawing
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED, Drawing, figure
from separatrix.studies.selection.length import grouped

_STAGES = (0, 1, 2, 4)
"""The stages of training that are drawn."""


@Curves(
    series=(
        Curve("ratio", "training loss {trained:.2g}"),
        Curve("limit", "the limit", RED, mode="lines", dash="dash"),
        Curve("square", "T<sub>2</sub><sup>2</sup> / T<sub>1</sub><sup>2</sup>", GREY, mode="lines", dash="dot"),
    ),
    by=("stage",),
    x=Axis("T<sub>2</sub> / T<sub>1</sub>", "times", ticks=(1, 2, 3, 5, 10)),
    y=Axis("loss at T<sub>2</sub> / loss at T<sub>1</sub>", log=True),
    height=460,
)
def length_population(results: Results) -> Chart:
    """Length generalisation with orthonormal encodings: the ratio of losses at several stages of training."""
    cells = sorted(rows_of(results), key=lambda row: int(row["T1"]))
    last = cells[-1]
    T1 = int(last["T1"])
    times = [length / T1 for length in last["lengths"]]
    curves: list[Row] = [
        {"stage": at, "times": times, "ratio": last["ratios"][at], "trained": last["trained"][at]} for at in _STAGES
    ]
    limits = {"stage": None, "times": times, "limit": last["limit"], "square": [value**2 for value in times]}
    rows = [*one_row_per_entry(curves, "times", "ratio"), *one_row_per_entry([limits], "times", "limit", "square")]
    table = [
        {"T1": cell["T1"], "T2": T2, "training_loss": loss, "ratio": ratio, "limit": limit}
        for cell in cells
        for loss, ratios in zip(cell["trained"], cell["ratios"], strict=True)
        for T2, ratio, limit in zip(cell["lengths"], ratios, cell["limit"], strict=True)
    ]
    text = (
        f"The loss at T2 over the loss at T1 = {T1} against T2/T1, orthonormal encodings: as training goes on it rises "
        f"to its limit, {last['limit'][times.index(2.0)]:.0f} at twice the length, where T2^2/T1^2 is 4."
    )
    return rows, text, table


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
