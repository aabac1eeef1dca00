"""Section 3.1 of Wang, Wei, Hsu and Lee: the end of training."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, one_row_per_entry, rows_of
from separatrix.report.theme import GREY


@Curves(
    x=Axis("time ηt", "eta t", log=True),
    y=Axis("loss, and 1 - q s", log=True),
    series=(
        Curve("loss", "T = {T}, q = {q}, d = {d}, loss", mode="lines"),
        Curve("1 - q s", "T = {T}, q = {q}, d = {d}, 1 - q s", mode="lines", dash="dot"),
        Curve("tail", "(T - 1) / (4ηt)", GREY, mode="lines", dash="dash"),
    ),
    by=("T", "q", "d"),
    height=460,
    columns=("T", "q", "d", "eta t", "loss", "1 - q s"),
)
def population_tail(results: Results) -> Chart:
    """Section 3.1: the population loss and the attention outside the subset, against the time eta t."""
    runs = [{**row, "eta t": row["tau"], "1 - q s": row["w"], "late": row["tau"][-1] / 1e3} for row in rows_of(results)]
    rows = [
        {**row, "tail": (row["T"] - 1) / (4 * row["eta t"])} if row["eta t"] > row["late"] else row
        for row in one_row_per_entry(runs, "eta t", "loss", "1 - q s")
    ]
    return rows, (
        "On logarithmic axes the loss leaves its plateau and falls with slope -1 onto (T - 1) / (4 eta t), while the "
        "attention off the subset falls with slope -1/2."
    )
