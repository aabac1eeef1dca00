"""Lemma D.6 of Alman and Song: errors of the output against their bound."""

from __future__ import annotations

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results, groups_of, rows_of
from separatrix.report.theme import BLUE, GREEN, ORANGE, RED


@Curves(
    series=Curve("ratio", "{label}"),
    by=("normaliser",),
    x=Axis("ε<sub>A</sub> = ε<sub>D</sub>", "epsilon", log=True, ticks="data"),
    y=Axis("error of the output / bound", log=True),
    bound=Bound("the bound", 1, first=True),
    colours=(BLUE, GREEN, ORANGE, RED),
    columns=("normaliser", "epsilon", "ratio"),
)
def output_error(results: Results) -> Chart:
    """Lemma D.6: the error of the output divided by its bound, if D and D~ are row sums and if they are not."""
    kinds = list(dict.fromkeys(row["normaliser"] for row in rows_of(results)))
    rows = [
        {
            "normaliser": kind,
            "label": kind.replace("eps_D", "ε<sub>D</sub>"),
            "epsilon": epsilon,
            "ratio": max(row["ratio"] for row in group),
        }
        for (kind, epsilon), group in groups_of(rows_of(results), "normaliser", "epsilon").items()
    ]
    return sorted(rows, key=lambda row: (kinds.index(row["normaliser"]), row["epsilon"])), (
        "The error of the output divided by the lemma's bound, against epsilon: at most about one half if D and D~ "
        "are row sums, above 1 if they are only within epsilon of each other, and far above 1 if D is unrelated."
    )
