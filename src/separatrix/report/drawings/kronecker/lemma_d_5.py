"""Lemma D.5 of Alman and Song: errors of the row sums against their bound."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import bound_line, columns_of, curve, drawing, rows_of, ticks
from separatrix.report.theme import COLOURS, Drawing, figure


@drawing
def denominator_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.5: error of the row sums over its bound."""
    rows = sorted(rows_of(found), key=lambda row: (row["errors"], row["n"], row["thousandths"]))
    drawn = figure("ε<sub>A</sub>", "error of D / bound", log_x=True)
    epsilons = {row["thousandths"] / 1000 for row in rows}
    ticks(drawn, epsilons)
    bound_line(drawn, epsilons)
    for (kind, n), colour in zip(sorted({(row["errors"], row["n"]) for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if (row["errors"], row["n"]) == (kind, n)]
        x, y = [row["thousandths"] / 1000 for row in line], [row["ratio"] for row in line]
        dash = "solid" if kind == "random" else "dot"
        drawn.add_trace(curve(f"{kind} errors, n = {n}", x, y, colour, dash=dash))
    drawn.update_yaxes(range=[0, 1.15])
    largest = max(row["ratio"] for row in rows)
    text = (
        f"Errors of the row sums over the bound of the lemma, for every epsilon: at most {largest:.3g}, which errors "
        "of one sign reach."
    )
    return Drawing(drawn, text, columns_of(rows, "errors", "n", "thousandths", "ratio"))
