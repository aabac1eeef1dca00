"""Which encoding of positions generalises in length."""

from __future__ import annotations

from statistics import fmean, geometric_mean

from separatrix.report.charts import Axis, Curve, Curves, drawing
from separatrix.report.tables import Results, columns_of
from separatrix.report.theme import Drawing
from separatrix.studies.selection.attention import ZERO
from separatrix.studies.selection.positions import LENGTHS, at, by_encoding

_CURVES = Curves(
    series=Curve("mean", "{encoding}", spread=("least", "largest")),
    by=("encoding",),
    x=Axis("length T", "T", ticks="data"),
    y=Axis("loss / loss of answering zero", log=True, dtick="D2"),
    height=460,
)


@drawing
def selection_positions(results: Results) -> Drawing:
    """The loss at longer sequences, one line per encoding."""
    kinds = by_encoding(results)
    lengths = (int(results[0].parameters["T"]), *LENGTHS)
    rows = [
        {"encoding": kind, "seed": cell.seed, "T": T, "loss": at(cell, T)}
        for kind, cells in kinds.items()
        for cell in cells
        for T in lengths
    ]
    ratios = {(kind, T): [at(cell, T) / ZERO for cell in cells] for kind, cells in kinds.items() for T in lengths}
    drawn = _CURVES.figure(
        {"encoding": kind, "T": T, "mean": geometric_mean(losses), "least": min(losses), "largest": max(losses)}
        for (kind, T), losses in ratios.items()
    )
    last = {kind: fmean(at(cell, lengths[-1]) for cell in cells) / ZERO for kind, cells in kinds.items()}
    text = (
        f"The loss over that of answering zero at lengths {lengths[0]} to {lengths[-1]}, trained at {lengths[0]}, one "
        f"line per encoding, with bars for the range over seeds: at {lengths[-1]} stochastic has "
        f"{last['stochastic']:.2f} and fixed {last['fixed']:.2f}."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))
