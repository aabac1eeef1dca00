"""Figure 3 of Deng, Song, Yuan and Zhou: what the choice of tau does."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import COLOURS, GREY, Drawing, Value, figure


@drawing
def success_by_tau(found: Sequence[Found]) -> Drawing:
    """Softmax regression: success against tau for several n."""
    rows = sorted(found, key=lambda one: one.parameters["n"])
    drawn = figure("tau", "success at m = log n", height=440)
    columns: dict[str, list[Value]] = {"n": [], "m": [], "tau": [], "low": [], "high": []}
    for one, colour in zip(rows, COLOURS, strict=False):
        n, m, low, high = one.parameters["n"], one.result["m"], one.result["low"], one.result["high"]
        tau = [float(value) for value in one.parameters["taus"]]
        group = {"legendgroup": str(n)}
        drawn.add_trace(curve(f"n = {n}, m = {m}: at most", tau, high, colour, mode="lines", **group, showlegend=False))
        lower = curve(f"n = {n}, m = {m}", tau, low, colour, mode="lines", **group)
        lower.update(fill="tonexty")
        drawn.add_trace(lower)
        for key, values in (("n", [n] * len(tau)), ("m", [m] * len(tau)), ("tau", tau), ("low", low), ("high", high)):
            columns[key] += values
    drawn.add_trace(curve("tau = 0.25, ours for Figure 3", [0.25, 0.25], [0, 1], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-0.03, 1.03])
    text = (
        "Certified bounds on success against tau at m = log n: for n = 30 and 100 it depends on tau up to about one "
        "half, for n = 1000 any tau from 0.2 on gives one minus 2 to the power -m."
    )
    return Drawing(drawn, text, columns)
