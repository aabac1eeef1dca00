"""Figures that compare gradient flow with stochastic encodings with the law of its times."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of


@Curves(
    x=Axis("dimension d<sub>e</sub> of an encoding", "width", log=True),
    y=Axis("|time / law - 1|", log=True),
    series=Curve("apart", "{kind}, T = {T}, d = {d}"),
    by=("kind", "T", "d"),
    columns=("kind", "T", "d", "width", "apart"),
)
def selection_time_law(results: Results) -> Chart:
    """The distance of training times from their law."""
    rows = [
        {
            **row,
            "kind": "orthogonal encodings" if "q" in row else "random signs",
            "apart": max(abs(time / law - 1) for time, law in zip(row["times"], row["law"], strict=True)),
        }
        for row in rows_of(results)
        if "times" in row
    ]
    return rows, (
        "The relative distance of the times to the losses 0.01 and 0.001 from d_e (T / (2 d) + 1 / (4 epsilon)) with "
        "its lower terms: it falls in proportion to 1 / d_e, both with random signs and with orthogonal encodings."
    )


@Curves(
    x=Axis("tokens T", "T", log=True),
    y=Axis("time / law"),
    series=Curve("ratio", "d<sub>e</sub> = {K} log T, loss {epsilon}"),
    by=("K", "epsilon"),
    columns=("K", "T", "epsilon", "ratio"),
)
def selection_time_regime(results: Results) -> Chart:
    """Training times over their law where the dimension of the encodings is K log T."""
    rows = [
        {**row, "epsilon": epsilon, "ratio": ratio}
        for row in rows_of(results)
        for epsilon, ratio in zip((0.01, 0.001), row["ratios"], strict=True)
    ]
    return rows, (
        "With encodings of dimension K log T the times exceed the law of the limit of large d_e by a few percent, "
        "about in proportion to 1 / K."
    )
