"""Theorem C.3 of Wang, Wei, Hsu and Lee: the error of the construction against its bound."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing, figure


@drawing
def construction_error(found: Sequence[Found]) -> Drawing:
    """Theorem C.3: the largest error of the constructed transformer against epsilon."""
    rows = sorted(rows_of([one for one in found if "error" in one.result]), key=lambda row: (row["T"], row["epsilon"]))
    drawn = figure("epsilon", "largest error", log_x=True, log_y=True)
    for T, colour in zip(sorted({row["T"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["T"] == T]
        x = [row["epsilon"] for row in line]
        drawn.add_trace(curve(f"T = {T}, our scale", x, [row["error"] for row in line], colour))
        proof = [row["proof_error"] for row in line]
        drawn.add_trace(curve(f"T = {T}, the proof's scale", x, proof, colour, dash="dot"))
    x = sorted({row["epsilon"] for row in rows})
    drawn.add_trace(curve("allowed", x, x, GREY, mode="lines", dash="dash"))
    text = (
        "The largest error over 400 subsets of tokens of norm 1 falls with epsilon and stays below it, at our scale of "
        "W and at that of the paper's proof."
    )
    names = ("T", "q", "epsilon", "error", "over_bound", "scale", "printed_scale", "proof_error", "overlap")
    return Drawing(drawn, text, columns_of(rows, *names))
