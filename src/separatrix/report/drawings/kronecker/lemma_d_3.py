"""Lemma D.3 of Alman and Song: the largest scores against their bound."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import Row, bound_line, columns_of, curve, drawing, ticks
from separatrix.report.theme import COLOURS, Drawing, figure


@drawing
def score_bound(found: Sequence[Found]) -> Drawing:
    """Lemma D.3: the largest score against B, below B^3."""
    drawn = figure("entry bound B", "largest score / B<sup>3</sup>", log_x=True)
    bounds = {one.parameters["bound"] for one in found}
    ticks(drawn, bounds)
    bound_line(drawn, bounds)
    d = max(one.parameters["d"] for one in found)
    rows = sorted((row for row in map(_score, found) if row["d"] == d), key=lambda row: (row["entries"], row["bound"]))
    for kind, colour in zip(sorted({row["entries"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["entries"] == kind]
        drawn.add_trace(curve(kind, [row["bound"] for row in line], [row["ratio"] for row in line], colour))
    drawn.update_yaxes(range=[0, 1.15])
    text = (
        f"The largest score over B cubed against B at d = {d}, for uniform, extreme and aligned entries: never above "
        "1, which the last reach."
    )
    return Drawing(drawn, text, columns_of(rows, "entries", "d", "bound", "largest", "ratio"))


def _score(one: Found) -> Row:
    # The kind of entries is a parameter, and the result counts entries.
    return {**one.result, **one.parameters}
