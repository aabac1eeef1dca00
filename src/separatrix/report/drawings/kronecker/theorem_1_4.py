"""Theorem 1.4 of Alman and Song: the limits of the exponents."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.drawings.kronecker.theorems_1_3_and_1_4 import phase_grid
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing, Value, figure


@drawing
def threshold_limit(found: Sequence[Found]) -> Drawing:
    """Theorem 1.4 at order 3: exponents against the ratio for several n, and their limit."""
    rows = phase_grid(found)[3]
    limit = next(row for row in rows_of(found) if "limit" in row and row["order"] == 3)
    drawn = figure("B / (ln n)<sup>1/3</sup>", "log<sub>n</sub> of the polynomial method's flops", height=460)
    shown = [row for row in rows if row["log2_n"] in (10, 20, 40)]
    for row, colour in zip(shown, COLOURS, strict=False):
        label = f"n = 2<sup>{row['log2_n']}</sup>"
        drawn.add_trace(curve(label, row["ratios"], row["polynomial_exponent"], colour, mode="lines"))
    drawn.add_trace(curve("limit", limit["ratios"], limit["limit"], GREY, mode="lines", dash="dash"))
    drawn.add_hline(y=3, line={"color": GREY, "width": 1}, annotation_text="cubic", annotation_position="top left")
    drawn.add_hline(y=1, line={"color": GREY, "width": 1}, annotation_text="linear", annotation_position="top right")
    drawn.update_yaxes(range=[0.8, 6])
    columns: dict[str, list[Value]] = {"ratio": list(limit["ratios"]), "limit": list(limit["limit"])}
    columns |= {f"n = 2^{row['log2_n']}": list(row["polynomial_exponent"]) for row in shown}
    text = (
        "The exponent at order 3 against B / (ln n)^(1/3) for n = 2^10, 2^20, 2^40 falls slowly to its limit, which is "
        f"cubic at {limit['border']:.2f} and reaches 1 only as the ratio goes to 0."
    )
    return Drawing(drawn, text, columns)
