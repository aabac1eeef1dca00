"""Lemma E.1 of Alman and Song: the rank that is needed against the printed one."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of


@Curves(
    series=(Curve("columns", "d = {d}, needed"), Curve("printed", "d = {d}, printed", dash="dot", mode="lines")),
    by=("d",),
    x=Axis("degree g", "degree"),
    y=Axis("columns r", log=True),
    columns=("d", "degree", "columns", "needed", "printed"),
)
def sharp_rank(results: Results) -> Chart:
    """Lemma E.1: the number of columns that is needed, and the printed one."""
    rows = [{**row, "printed": float(row["printed"])} for row in rows_of(results)]
    rows.sort(key=lambda row: (row["d"], row["degree"]))
    last = rows[-1]
    return rows, (
        f"Columns against the degree for several d on a logarithmic axis: the printed count is far above what is "
        f"needed; at d = {last['d']}, g = {last['degree']} it is {last['printed']:.3g} against {last['columns']:,}."
    )
