"""Lemma B.1 of Alman and Song: the smallest beta."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE


@Curves(
    series=(
        Curve("square", "proof, square root as printed", GREY),
        Curve("cube", "proof, cube root", ORANGE),
        Curve("rule", "least by the rule with its error", GREEN),
        Curve("exact", "least on exact outputs", BLUE),
    ),
    x=Axis("n", "n", log=True, ticks="data"),
    y=Axis("β", log=True),
    height=440,
    columns=("n", "d", "low", "high", "square", "cube", "rule", "exact"),
)
def smallest_beta(results: Results) -> Chart:
    """Lemma B.1: the smallest beta, by the rule and on exact outputs, and the proof's beta, against n."""
    rows = sorted(rows_of(results), key=lambda row: int(row["n"]))
    line = [row for row in rows if (row["d"], row["low"], row["high"]) == (20, 5, 10)]
    last = line[-1]
    text = (
        f"Beta against n at d = 20, t = 10, eps = 1/2, all growing as ln n: at n = {last['n']} the proof takes "
        f"{last['cube']:.0f}, the rule needs {last['rule']:.0f}, exact outputs {last['exact']:.0f}."
    )
    return line, text, rows
