"""Lemma C.3 of Alman and Song: flops of a product of column-wise Kronecker products."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of
from separatrix.report.theme import BLUE, RED


@Curves(
    series=(Curve("direct_flops", "A<sup>T</sup>B as defined", RED), Curve("factored_flops", "by its factors", BLUE)),
    x=Axis("rows n of each factor", "n", log=True, ticks="data"),
    y=Axis("flops counted", log=True),
    columns=("n", "d1", "d2", "direct_flops", "factored_flops"),
)
def kronecker_product_flops(results: Results) -> Chart:
    """Lemma C.3: the flops of A^T B, computed directly and by its factors, against n."""
    widest = max((row["d1"], row["d2"]) for row in rows_of(results))
    by_n = {row["n"]: row for row in rows_of(results) if (row["d1"], row["d2"]) == widest}
    rows = [by_n[n] for n in sorted(by_n)]
    last = rows[-1]
    return rows, (
        f"Flops against n on logarithmic axes: the defined product grows as n squared, the factored one as n; at n = "
        f"{last['n']} they are {last['direct_flops']:,} and {last['factored_flops']:,}."
    )
