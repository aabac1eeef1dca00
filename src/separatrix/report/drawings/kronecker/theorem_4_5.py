"""Theorem 4.5 of Alman and Song: how often Merlin's best lie is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing, figure


@drawing
def protocol_soundness(found: Sequence[Found]) -> Drawing:
    """Theorem 4.5: with what probability Merlin's best lie is accepted, against the length of the code."""
    rows = sorted(
        ({**row, **{name: float(Fraction(row[name])) for name in ("worst", "bound")}} for row in rows_of(found)),
        key=lambda row: (row["r"], row["length"]),
    )
    drawn = figure("length N of the code", "accepted with probability", height=460)
    for r, colour in zip(sorted({row["r"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["r"] == r]
        length = [row["length"] for row in line]
        points = {"color": colour, "size": 10}
        worst = [row["worst"] for row in line]
        drawn.add_trace(go.Scatter(name=f"r = {r}, best lie", x=length, y=worst, mode="markers", marker=points))
        reach = [at / 4 for at in range(4 * length[0], 4 * length[-1] + 1)]
        bound = [min(1.0, 3 * (r - 1) / at) for at in reach]
        drawn.add_trace(curve(f"r = {r}, bound 3 (r - 1) / N", reach, bound, colour, mode="lines"))
        typical = [row["typical"] for row in line]
        drawn.add_trace(curve(f"r = {r}, mean over sets", length, typical, colour, mode="lines", dash="dot"))
    drawn.add_hline(y=0.5, line={"color": GREY, "width": 1}, annotation_text="1/2", annotation_position="top right")
    drawn.update_yaxes(range=[0, 1.05])
    half = ", ".join(f"{6 * (r - 1)} at r = {r}" for r in sorted({row["r"] for row in rows}))
    text = (
        "The probability that Merlin's best lie is accepted, by interpolation, lies on the bound 3 (r - 1) / N "
        f"wherever that is below 1; it falls to 1/2 at N = {half}."
    )
    names = ("m", "parts", "r", "length", "field", "worst", "typical", "bound", "merlin_bits", "coins", "bob_bits")
    return Drawing(drawn, text, columns_of(rows, *names))
