"""Corollary 3.6 of Wang, Wei, Hsu and Lee: the loss at longer sequences over that at the training length."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, one_row_per_entry, rows_of


@Curves(
    series=(
        Curve("ratio", "T<sub>2</sub> = {times:g} T<sub>1</sub>"),
        Curve("corollary", "{times:g}<sup>2</sup>", mode="lines", dash="dash"),
    ),
    by=("times",),
    x=Axis("training length T<sub>1</sub>", "T1", log=True, ticks="data"),
    y=Axis("loss at T<sub>2</sub> over loss at T<sub>1</sub>", log=True),
    columns=("T1", "T2", "ratio", "limit", "corollary"),
)
def length_ratio(results: Results) -> Chart:
    """Corollary 3.6: the loss at the length T_2 divided by the loss at the training length T_1, against T_1."""
    cells = sorted(rows_of(results), key=lambda row: int(row["T1"]))
    return one_row_per_entry(cells, "times", "T2", "ratio", "limit", "corollary"), (
        "Late in training the ratio of the loss at a longer length to the training loss grows in proportion to the "
        "training length, whereas the corollary states a constant, the square of the ratio of the lengths."
    )
