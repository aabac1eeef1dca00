"""Theorem C.3 of Wang, Wei, Hsu and Lee: the error of the construction against its bound."""

from __future__ import annotations

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of


@Curves(
    series=(Curve("error", "T = {T}, our scale"), Curve("proof_error", "T = {T}, the proof's scale", dash="dot")),
    by=("T",),
    x=Axis("ε", "epsilon", log=True),
    y=Axis("largest error", log=True),
    bound=Bound("allowed", lambda epsilon: epsilon),
    columns=("T", "q", "epsilon", "error", "over_bound", "scale", "printed_scale", "proof_error", "overlap"),
)
def construction_error(results: Results) -> Chart:
    """Theorem C.3: the largest error of the constructed transformer against epsilon."""
    rows = rows_of(cell for cell in results if "error" in cell.result)
    return sorted(rows, key=lambda row: (row["T"], row["epsilon"])), (
        "The largest error over 400 subsets of tokens of norm 1 falls with epsilon and stays below it, at our scale of "
        "W and at that of the paper's proof."
    )
