"""Lemma D.6 of Alman and Song: errors of the output against their bound."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import bound_line, curve, drawing, rows_of, ticks
from separatrix.report.theme import BLUE, GREEN, ORANGE, RED, Drawing, Value, figure


@drawing
def output_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.6: error of the output over its bound, with and without D and D~ being row sums."""
    kinds = list(dict.fromkeys(row["normaliser"] for row in rows_of(found)))
    drawn = figure("ε<sub>A</sub> = ε<sub>D</sub>", "error of the output / bound", log_x=True, log_y=True)
    epsilons = {one.result["epsilon"] for one in found}
    ticks(drawn, epsilons)
    bound_line(drawn, epsilons)
    columns: dict[str, list[Value]] = {"normaliser": [], "epsilon": [], "ratio": []}
    for kind, colour in zip(kinds, (BLUE, GREEN, ORANGE, RED), strict=True):
        rows = [row for row in rows_of(found) if row["normaliser"] == kind]
        x = sorted({row["epsilon"] for row in rows})
        y = [max(row["ratio"] for row in rows if row["epsilon"] == epsilon) for epsilon in x]
        drawn.add_trace(curve(kind.replace("eps_D", "ε<sub>D</sub>"), x, y, colour))
        columns["normaliser"] += [kind] * len(x)
        columns["epsilon"] += x
        columns["ratio"] += y
    text = (
        "Errors of the output relative to the lemma's bound against epsilon: about half of it or less where D and D~ "
        "are row sums, above it where they are only within epsilon of each other, and far above where D is unrelated."
    )
    return Drawing(drawn, text, columns)
