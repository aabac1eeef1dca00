"""Hypothesis 4.1, Conjecture 4.3 and Theorem 4.7 of Alman and Song: the sizes of the chain from SAT to attention."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED, Drawing, figure


@drawing
def chain_sizes(found: Sequence[Found]) -> Drawing:
    """Section 4: the numbers in each problem of the chain against the variables of the formula."""
    (row,) = rows_of(found)
    v = row["variables"]
    drawn = figure("variables v (4.27 v clauses)", "log<sub>2</sub> of the size", height=500)
    for name, label, colour, dash in (
        ("cnf", "CNF, literals", GREY, "solid"),
        ("orthogonal_vectors", "3OV, numbers", BLUE, "solid"),
        ("direct_maxip", "directly: Gap-MaxIP, numbers", GREEN, "solid"),
        ("direct_work", "directly: multiplications", GREEN, "dash"),
        ("protocol_maxip", "by protocol: Gap-MaxIP, numbers", ORANGE, "solid"),
        ("protocol_work", "by protocol: multiplications", ORANGE, "dash"),
    ):
        drawn.add_trace(curve(label, v, row[name], colour, dash=dash))
    drawn.add_trace(curve("2<sup>v</sup> assignments", v, v, RED, mode="lines", dash="dot"))
    text = (
        f"Sizes along the chain against v: vectors grow as 2^(v/3), attention over triples as 2^v; at v = {v[-1]} the "
        f"direct road takes 2^{row['direct_work'][-1]:.0f} multiplications, the protocol's "
        f"2^{row['protocol_work'][-1]:.0f}."
    )
    return Drawing(drawn, text, dict(row))
