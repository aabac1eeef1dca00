"""Lemma B.1 of Alman and Song: the smallest beta."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, Drawing, figure


@drawing
def smallest_beta(found: Sequence[Found]) -> Drawing:
    """Lemma B.1: the smallest beta, by the rule and on exact outputs, beside the proof's, against n."""
    rows = sorted(rows_of(found), key=lambda row: int(row["n"]))
    line = [row for row in rows if (row["d"], row["low"], row["high"]) == (20, 5, 10)]
    drawn = figure("n", "beta", log_x=True, log_y=True, height=440)
    n = [row["n"] for row in line]
    for name, label, colour in (
        ("square", "proof, square root as printed", GREY),
        ("cube", "proof, cube root", ORANGE),
        ("rule", "least by the rule with its error", GREEN),
        ("exact", "least on exact outputs", BLUE),
    ):
        drawn.add_trace(curve(label, n, [row[name] for row in line], colour))
    drawn.update_xaxes(tickvals=n, ticktext=[str(value) for value in n])
    last = line[-1]
    text = (
        f"Beta against n at d = 20, t = 10, eps = 1/2, all growing as ln n: at n = {last['n']} the proof takes "
        f"{last['cube']:.0f}, the rule needs {last['rule']:.0f}, exact outputs {last['exact']:.0f}."
    )
    return Drawing(drawn, text, columns_of(rows, "n", "d", "low", "high", "square", "cube", "rule", "exact"))
