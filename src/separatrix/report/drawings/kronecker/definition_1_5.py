"""Definition 1.5 of Alman and Song: the library's errors against the definition."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, RED

_SERIES = (
    ("exact", "exact", BLUE),
    ("polynomial", "polynomial", GREEN),
    ("certificate", "its certificate", GREY),
    ("printed", "the brackets as printed", RED),
)


@Curves(
    series=[Curve(name, label, colour, mode="markers", size=10) for name, label, colour in _SERIES],
    x=Axis("order k, length n", "case"),
    y=Axis("largest difference", log=True),
    columns=("order", "n", "d", "exact", "polynomial", "certificate", "printed"),
)
def definition_errors(results: Results) -> Chart:
    """Definition 1.5: the largest differences between the library's algorithms and the definition."""
    rows = sorted(rows_of(results), key=lambda row: (row["order"], row["n"]))
    worst = max(row["exact"] for row in rows)
    return [{**row, "case": f"{row['order']},{row['n']}"} for row in rows], (
        f"Differences from the definition by order: exact attention within {worst:.1g}, the polynomial method below "
        "its certificates, the formula with the printed brackets far off wherever d > 1."
    )
