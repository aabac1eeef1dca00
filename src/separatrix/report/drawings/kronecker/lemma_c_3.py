"""Lemma C.3 of Alman and Song: flops of a product of column-wise Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, curve, drawing, rows_of, ticks
from separatrix.report.theme import BLUE, RED, Drawing, figure


@drawing
def kronecker_product_flops(found: Sequence[Found]) -> Drawing:
    """Lemma C.3: flops of A^T B computed directly and by its factors."""
    widest = max((row["d1"], row["d2"]) for row in rows_of(found))
    rows = {row["n"]: row for row in rows_of(found) if (row["d1"], row["d2"]) == widest}
    chosen = [rows[n] for n in sorted(rows)]
    drawn = figure("rows n of each factor", "flops counted", log_x=True, log_y=True)
    n = [row["n"] for row in chosen]
    drawn.add_trace(curve("A<sup>T</sup>B as defined", n, [row["direct_flops"] for row in chosen], RED))
    drawn.add_trace(curve("by its factors", n, [row["factored_flops"] for row in chosen], BLUE))
    ticks(drawn, n)
    last = chosen[-1]
    text = (
        f"Flops against n on logarithmic axes: the defined product grows as n squared, the factored one as n; at n = "
        f"{last['n']} they are {last['direct_flops']:,} and {last['factored_flops']:,}."
    )
    return Drawing(drawn, text, columns_of(chosen, "n", "d1", "d2", "direct_flops", "factored_flops"))
