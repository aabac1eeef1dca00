"""Which encoding of positions generalises in length."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, ticks
from separatrix.report.theme import COLOURS, Drawing, Value, figure
from separatrix.studies.selection.attention import ZERO
from separatrix.studies.selection.positions import LENGTHS, at, by_encoding


@drawing
def selection_positions(found: Sequence[Found]) -> Drawing:
    """The loss at longer sequences, a line an encoding."""
    kinds = by_encoding(found)
    lengths = (int(found[0].parameters["T"]), *LENGTHS)
    drawn = figure("length T", "loss / loss of answering zero", log_y=True, height=460)
    columns: dict[str, list[Value]] = {name: [] for name in ("encoding", "seed", "T", "loss")}
    for (kind, some), colour in zip(kinds.items(), COLOURS, strict=True):
        values = [[at(one, T) / ZERO for one in some] for T in lengths]
        means = [geometric_mean(losses) for losses in values]
        spread = {
            "type": "data",
            "symmetric": False,
            "array": [max(losses) - mean for losses, mean in zip(values, means, strict=True)],
            "arrayminus": [mean - min(losses) for losses, mean in zip(values, means, strict=True)],
            "thickness": 1,
        }
        drawn.add_trace(curve(kind, lengths, means, colour, error_y=spread))
        rows: list[tuple[Value, ...]] = [(kind, one.seed, T, at(one, T)) for one in some for T in lengths]
        for row in rows:
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    ticks(drawn, lengths)
    drawn.update_yaxes(dtick="D2")
    last = {kind: fmean(at(one, lengths[-1]) for one in some) / ZERO for kind, some in kinds.items()}
    text = (
        f"The loss over that of answering zero at lengths {lengths[0]} to {lengths[-1]}, trained at {lengths[0]}, an "
        f"encoding a line, bars from the least to the largest seed: at {lengths[-1]} stochastic has "
        f"{last['stochastic']:.2f} and fixed {last['fixed']:.2f}."
    )
    return Drawing(drawn, text, columns)
