"""Lemmas 4.1 and 4.2 of Deng, Song, Yuan and Zhou: the sums of softmax regression with random signs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.drawings.separation.lemmas_d_2_to_f_16 import power_ticks
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED, Drawing, Value, figure


@drawing
def regression_sums(found: Sequence[Found]) -> Drawing:
    """Lemmas 4.1 and 4.2: which constants C are too small, and which are enough for all data."""
    rows = sorted((one.result for one in found if "too_small" in one.result), key=lambda row: float(row["log10_n"]))
    drawn = figure("log<sub>10</sub> n", "C", log_x=True, height=460)
    x = [row["log10_n"] for row in rows]
    series = {
        "enough for all data, D1": ([row["enough"][1] for row in rows], GREEN),
        "enough for all data, D0": ([row["enough"][0] for row in rows], BLUE),
        "too small for equal data, D1": ([row["too_small"][1] for row in rows], ORANGE),
        "too small for equal data, D0": ([row["too_small"][0] for row in rows], RED),
    }
    for name, (y, colour) in series.items():
        drawn.add_trace(curve(name, x, y, colour))
    drawn.add_trace(curve("√2", x, [math.sqrt(2)] * len(x), GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[0.5, 2.1])
    drawn.update_xaxes(range=[math.log10(0.28), math.log10(110)], **power_ticks(0.3, 1, 2, 4, 10, 20, 50, 100))
    columns: dict[str, list[Value]] = {
        "log10_n": list(x),
        "enough_d0": list(series["enough for all data, D0"][0]),
        "enough_d1": list(series["enough for all data, D1"][0]),
        "too_small_d0": list(series["too small for equal data, D0"][0]),
        "too_small_d1": list(series["too small for equal data, D1"][0]),
    }
    text = (
        "Constants C of Lemmas 4.1 and 4.2 for linear attention against log n. The C that Hoeffding's inequality shows "
        "to be enough for all data is below 2 at every n. The C that is too small, as equal data exceed the bound with "
        "a chance above delta / n, grows to the square root of 2."
    )
    return Drawing(drawn, text, columns)
