"""Lemmas 4.1 and 4.2 of Deng, Song, Yuan and Zhou: the sums of softmax regression with random signs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.drawings.separation.lemmas_d_2_to_f_16 import FLOOR, power_ticks
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED, Drawing, Value, figure


@drawing
def regression_sums(found: Sequence[Found]) -> Drawing:
    """Lemmas 4.1 and 4.2: chances of large sums, and what is allowed."""
    rows = sorted((one.result for one in found if "enough" in one.result), key=lambda row: float(row["log10_n"]))
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance", log_x=True, height=460)
    x = [row["log10_n"] for row in rows]
    few = [(row["log10_n"], row["few"]) for row in rows if row["few"] is not None]
    series = (
        ("linear on D0, C = 2, all data", [row["enough"] for row in rows], BLUE),
        ("linear on D1, C = 3, all data", [row["others"][1] for row in rows], GREEN),
        ("softmax on D0, C = 2, all data", [max(row["others"][0], FLOOR) for row in rows], ORANGE),
    )
    for name, y, colour in series:
        drawn.add_trace(curve(name, x, y, colour))
    drawn.add_trace(curve("linear on D0, C = 1.2, equal data", [k for k, _ in few], [y for _, y in few], RED))
    drawn.add_trace(curve("δ / n", x, [-2 - k for k in x], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-60, 2])
    drawn.update_xaxes(range=[math.log10(0.28), math.log10(60)], **power_ticks(0.3, 1, 2, 4, 10, 20, 50))
    columns: dict[str, list[Value]] = {
        "log10_n": list(x),
        "linear_d0": [row["enough"] for row in rows],
        "linear_d0_narrow": [row["few"] for row in rows],
        "softmax_d0": [row["others"][0] for row in rows],
        "linear_d1": [row["others"][1] for row in rows],
    }
    text = (
        "Bounds on the chance of a sum beyond the lemmas' bounds, over all data, against log n: with C = 2 or 3 they "
        "are below delta / n at every n; with C = 1.2 the exact chance, for equal data, is above it from n = 100 on."
    )
    return Drawing(drawn, text, columns)
