"""The exact border of the separation: the share of sign vectors that fire against a_1, and the least m."""

from __future__ import annotations

from fractions import Fraction

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of


@Curves(
    x=Axis("a<sub>1</sub> / a<sub>1</sub> on the border", "a1"),
    y=Axis("share of sign vectors that fire"),
    series=Curve("fires", "n = {n:.3g}, g = {g}"),
    by=("n", "g"),
    columns=("n", "g", "a1", "fires", "beyond", "variance"),
)
def linear_border(results: Results) -> Chart:
    """The share of sign vectors on which linear attention fires, against a_1 in units of its exact border."""
    rows = [
        {**row, "a1": float(Fraction(row["factor"])), "fires": 10 ** row["share"]}
        for row in rows_of(results)
        if row["b"] == "0.2"
    ]
    return rows, (
        "The share of sign vectors on which linear attention fires on D1, at b = 0.2: near 0 before the border and "
        "at least 1/8 beyond it, the more abruptly the more classes there are."
    )


@Curves(
    x=Axis("n, as a power of ten", "log10_n"),
    y=Axis("log<sub>10</sub> of the chance of silence / (δ / n)"),
    series=(Curve("enough", "least m, a_1 = {a1}"), Curve("fewer", "one less, a_1 = {a1}", dash="dash")),
    by=("a1",),
    columns=("log10_n", "g", "a1", "m", "enough", "fewer"),
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
    ]
    return rows, (
        "With the least m for which (3/4)^m is at most delta / n the chance that softmax attention stays silent on D1 "
        "is at most delta / n, and with one sign vector less it is above."
    )
