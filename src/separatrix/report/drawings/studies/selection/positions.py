"""Figures of the encodings of positions that generalise in length."""

from __future__ import annotations

from statistics import fmean, geometric_mean

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results
from separatrix.studies.selection.attention import ZERO
from separatrix.studies.selection.positions import LENGTHS, at, by_encoding


@Curves(
    series=Curve("mean", "{encoding}", spread=("least", "largest")),
    by=("encoding",),
    x=Axis("length T", "T", ticks="data"),
    y=Axis("loss / loss of answering zero", log=True, dtick="D2"),
    height=460,
    columns=("encoding", "seed", "T", "loss"),
)
def selection_positions(results: Results) -> Chart:
    """The loss at longer sequences, one line per encoding."""
    kinds = by_encoding(results)
    lengths = (int(results[0].parameters["T"]), *LENGTHS)
    table = [
        {"encoding": kind, "seed": cell.seed, "T": T, "loss": at(cell, T)}
        for kind, cells in kinds.items()
        for cell in cells
        for T in lengths
    ]
    ratios = {(kind, T): [at(cell, T) / ZERO for cell in cells] for kind, cells in kinds.items() for T in lengths}
    rows = [
        {"encoding": kind, "T": T, "mean": geometric_mean(losses), "least": min(losses), "largest": max(losses)}
        for (kind, T), losses in ratios.items()
    ]
    last = {kind: fmean(at(cell, lengths[-1]) for cell in cells) / ZERO for kind, cells in kinds.items()}
    text = (
        f"The loss over that of answering zero at lengths {lengths[0]} to {lengths[-1]}, trained at {lengths[0]}, one "
        f"line per encoding, with bars for the range over seeds: at {lengths[-1]} stochastic has "
        f"{last['stochastic']:.2f} and fixed {last['fixed']:.2f}."
    )
    return rows, text, table
