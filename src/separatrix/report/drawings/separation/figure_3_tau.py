"""Figure 3 of Deng, Song, Yuan and Zhou: the effect of the choice of tau."""

from __future__ import annotations

from separatrix.report.charts import curve, drawing
from separatrix.report.tables import Results, columns_of, groups_of, one_row_per_entry, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing, figure


@drawing
def success_by_tau(results: Results) -> Drawing:
    """Softmax regression: the success probability against the threshold tau, for several n."""
    cells = [{**row, "tau": [float(tau) for tau in row["taus"]]} for row in rows_of(results)]
    rows = one_row_per_entry(sorted(cells, key=lambda row: int(row["n"])), "tau", "low", "high")
    drawn = figure("τ", "success at m = log n", height=440)
    for ((n, m), group), colour in zip(groups_of(rows, "n", "m").items(), COLOURS, strict=False):
        tau, low, high = columns_of(group, "tau", "low", "high").values()
        look = {"mode": "lines", "legendgroup": str(n)}
        drawn.add_trace(curve(f"n = {n}, m = {m}: at most", tau, high, colour, **look, showlegend=False))
        drawn.add_trace(curve(f"n = {n}, m = {m}", tau, low, colour, **look, fill="tonexty"))
    drawn.add_trace(curve("τ = 0.25, ours for Figure 3", [0.25, 0.25], [0, 1], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-0.03, 1.03])
    text = (
        "Certified bounds on success against tau at m = log n: for n = 30 and 100 it depends on tau up to about one "
        "half, for n = 1000 any tau from 0.2 on gives $1 - 2^{-m}$."
    )
    return Drawing(drawn, text, columns_of(rows, "n", "m", "tau", "low", "high"))
