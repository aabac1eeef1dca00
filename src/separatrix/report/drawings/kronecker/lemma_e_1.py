"""Lemma E.1 of Alman and Song: the rank that is needed against the printed one."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import COLOURS, Drawing, figure


@drawing
def sharp_rank(found: Sequence[Found]) -> Drawing:
    """Lemma E.1: the number of columns that is needed, beside the printed one."""
    rows = [row | {"printed": float(row["printed"])} for row in map(dict, rows_of(found))]
    rows.sort(key=lambda row: (row["d"], row["degree"]))
    drawn = figure("degree g", "columns r", log_y=True)
    for d, colour in zip(sorted({row["d"] for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if row["d"] == d]
        g = [row["degree"] for row in line]
        drawn.add_trace(curve(f"d = {d}, needed", g, [row["columns"] for row in line], colour))
        printed = [row["printed"] for row in line]
        drawn.add_trace(curve(f"d = {d}, printed", g, printed, colour, dash="dot", mode="lines"))
    last = rows[-1]
    text = (
        f"Columns against the degree for several d on a logarithmic axis: the printed count is far above what is "
        f"needed; at d = {last['d']}, g = {last['degree']} it is {last['printed']:.3g} against {last['columns']:,}."
    )
    return Drawing(drawn, text, columns_of(rows, "d", "degree", "columns", "needed", "printed"))
