"""Lemma D.5 of Alman and Song: errors of the row sums against their bound."""

from __future__ import annotations

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of


@Curves(
    series=Curve("ratio", "{errors} errors, n = {n}", dash=lambda row: "solid" if row["errors"] == "random" else "dot"),
    by=("errors", "n"),
    x=Axis("ε<sub>A</sub>", "epsilon", log=True, ticks="data"),
    y=Axis("error of D / bound", range=(0, 1.15)),
    bound=Bound("the bound", 1, first=True),
    columns=("errors", "n", "thousandths", "ratio"),
)
def denominator_error(results: Results) -> Chart:
    """Lemma D.5: the error of the row sums divided by its bound."""
    rows = sorted(rows_of(results), key=lambda row: (row["errors"], row["n"], row["thousandths"]))
    largest = max(row["ratio"] for row in rows)
    return [{**row, "epsilon": row["thousandths"] / 1000} for row in rows], (
        f"Errors of the row sums over the bound of the lemma, for every epsilon: at most {largest:.3g}, which errors "
        "of one sign reach."
    )
