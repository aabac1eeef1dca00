"""Corollary 3.6 of Wang, Wei, Hsu and Lee: the loss at longer sequences over that at the training length."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of, ticks
from separatrix.report.theme import COLOURS, Drawing, Value, figure


@drawing
def length_ratio(found: Sequence[Found]) -> Drawing:
    """Corollary 3.6: the loss at T_2 over that at T_1, against T_1, by T_2 / T_1."""
    rows = sorted(rows_of(found), key=lambda row: int(row["T1"]))
    drawn = figure(
        "training length T<sub>1</sub>", "loss at T<sub>2</sub> over loss at T<sub>1</sub>", log_x=True, log_y=True
    )
    lengths = [row["T1"] for row in rows]
    for at, (times, colour) in enumerate(zip(rows[0]["times"], COLOURS, strict=False)):
        name = f"T<sub>2</sub> = {times:g} T<sub>1</sub>"
        drawn.add_trace(curve(name, lengths, [row["ratio"][at] for row in rows], colour))
        allowed = [row["corollary"][at] for row in rows]
        drawn.add_trace(curve(f"{times:g}<sup>2</sup>", lengths, allowed, colour, mode="lines", dash="dash"))
    ticks(drawn, lengths)
    columns: dict[str, list[Value]] = {name: [] for name in ("T1", "T2", "ratio", "limit", "corollary")}
    for row in rows:
        for values in zip(*(row[name] for name in ("T2", "ratio", "limit", "corollary")), strict=True):
            for column, value in zip(columns.values(), (row["T1"], *values), strict=True):
                column.append(value)
    text = (
        "Late in training the ratio of the loss at a longer length to the training loss grows in proportion to the "
        "training length, where the corollary has a constant, the square of the ratio of the lengths."
    )
    return Drawing(drawn, text, columns)
