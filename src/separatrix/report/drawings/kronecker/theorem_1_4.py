"""Theorem 1.4 of Alman and Song: the limits of the exponents."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves, Level
from separatrix.report.drawings.kronecker.theorems_1_3_and_1_4 import phase_grid
from separatrix.report.tables import Results, one_row_per_entry, rows_of
from separatrix.report.theme import GREY


@Curves(
    series=(
        Curve("polynomial_exponent", "n = 2<sup>{log2_n}</sup>", mode="lines"),
        Curve("limit", "limit", GREY, mode="lines", dash="dash"),
    ),
    by=("log2_n",),
    x=Axis("B / (ln n)<sup>1/3</sup>", "ratio"),
    y=Axis("log<sub>n</sub> of the polynomial method's flops", range=(0.8, 6)),
    levels=(Level(3, "cubic", "top left"), Level(1, "linear")),
    height=460,
)
def threshold_limit(results: Results) -> Chart:
    """Theorem 1.4 at order 3: the exponent of n in the cost against B / (ln n)^(1/3), and its limit."""
    cells = [{**row, "ratio": row["ratios"]} for row in phase_grid(results)[3] if row["log2_n"] in (10, 20, 40)]
    limit = next(row for row in rows_of(results) if "limit" in row and row["order"] == 3)
    rows = one_row_per_entry(cells, "ratio", "polynomial_exponent")
    exponents = {f"n = 2^{row['log2_n']}": row["polynomial_exponent"] for row in cells}
    columns = {"ratio": limit["ratios"], "limit": limit["limit"], **exponents}
    table = one_row_per_entry([columns], *columns)
    text = (
        "The exponent at order 3 against B / (ln n)^(1/3) for n = 2^10, 2^20, 2^40 falls slowly to its limit, which is "
        f"cubic at {limit['border']:.2f} and reaches 1 only as the ratio goes to 0."
    )
    return [*rows, *({**row, "log2_n": None} for row in table)], text, table
