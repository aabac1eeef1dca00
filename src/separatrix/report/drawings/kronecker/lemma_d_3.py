"""Lemma D.3 of Alman and Song: the largest scores against their bound."""

from __future__ import annotations

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results


@Curves(
    series=Curve("ratio", "{entries}"),
    by=("entries",),
    x=Axis("entry bound B", "bound", log=True, ticks="data"),
    y=Axis("largest score / B<sup>3</sup>", range=(0, 1.15)),
    bound=Bound("the bound", 1, first=True),
    columns=("entries", "d", "bound", "largest", "ratio"),
)
def score_bound(results: Results) -> Chart:
    """Lemma D.3: the largest score divided by its bound B^3, against B."""
    d = max(cell.parameters["d"] for cell in results)
    # `entries` is the kind of entries in the parameters, which override the number of entries in the result.
    rows = [{**cell.result, **cell.parameters} for cell in results if cell.parameters["d"] == d]
    return sorted(rows, key=lambda row: (row["entries"], row["bound"])), (
        f"The largest score over B cubed against B at d = {d}, for uniform, extreme and aligned entries: at most 1, "
        "which aligned entries reach."
    )
