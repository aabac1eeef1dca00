"""The exact border of the separation: the fraction of sign vectors that fire against a_1, and the smallest m."""

from __future__ import annotations

from fractions import Fraction

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of

_SHOWN = (("0.7", "0.8"), ("0.9", "0.4"), ("2.3", "0.8"))
"""The pairs of a_1 and c whose least m is drawn, one for each share p."""


@Curves(
    x=Axis("a<sub>1</sub> / a<sub>1</sub> on the border", "a1"),
    y=Axis("fraction that fires"),
    series=Curve("fires", "n = {n:.3g}, g = {g}"),
    by=("n", "g"),
    columns=("n", "g", "a1", "fires", "beyond", "variance"),
)
def linear_border(results: Results) -> Chart:
    """The fraction of sign vectors on which linear attention fires, against a_1 in units of its exact border."""
    rows = [
        {**row, "a1": float(Fraction(row["factor"])), "fires": 10 ** row["share"]}
        for row in rows_of(results)
        if row["b"] == "0.2"
    ]
    return rows, (
        "The fraction of sign vectors on which linear attention fires on D1, at b = 0.2: near 0 below the border and "
        "at least 1/8 above it; with more classes the transition is sharper."
    )


@Curves(
    x=Axis("n, as a power of ten", "log10_n"),
    y=Axis("log<sub>10</sub> of P[silent] / (δ / n)"),
    series=(Curve("enough", "least m, p = {limit}"), Curve("fewer", "one less, p = {limit}", dash="dash")),
    by=("limit",),
    columns=("log10_n", "g", "a1", "c", "limit", "m", "enough", "fewer"),
)
def width_border(results: Results) -> Chart:
    """The probability that softmax attention stays silent on D1, for the smallest m and for one less."""
    rows = [
        {
            **row,
            "log10_n": -2 - row["allowed"],
            "enough": row["enough"] - row["allowed"],
            "fewer": row["fewer"] - row["allowed"],
        }
        for row in rows_of(results)
        if (row["a1"], row["c"]) in _SHOWN
    ]
    return rows, (
        "With the smallest m for which (1 - p)^m is at most delta / n, softmax attention is silent on D1 with "
        "probability at most delta / n; with one sign vector less, with a larger probability."
    )
