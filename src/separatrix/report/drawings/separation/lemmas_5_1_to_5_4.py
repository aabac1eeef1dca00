"""Lemmas 5.1 to 5.4 of Deng, Song, Yuan and Zhou: how the networks of softmax regression may fail."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.claims.separation.lemmas_5_1_to_5_4 import at_tau
from separatrix.report.drawings.separation.lemmas_d_2_to_f_16 import FLOOR, power_ticks
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, RED, Drawing, Value, figure


@drawing
def regression_failures(found: Sequence[Found]) -> Drawing:
    """Lemmas 5.1 to 5.4: chances that a part fails, and what is allowed."""
    paths = {one.parameters["width"]: one.result for one in at_tau(found)}
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance of failure", log_x=True, height=460)
    wide, narrow = paths[1.5], paths[1.0]
    x = wide["log10_n"]
    series = (
        ("softmax fires on D0", wide["exp_silent_on_d0"], ORANGE, "solid"),
        ("linear fires on D0", wide["lin_silent_on_d0"], BLUE, "solid"),
        ("linear fires on D1", wide["lin_silent_on_d1"], GREEN, "solid"),
        ("softmax silent on D1, C = 1.5", wide["exp_fires_on_d1"], RED, "solid"),
        ("softmax silent on D1, C = 1", narrow["exp_fires_on_d1"], RED, "dot"),
    )
    for name, y, colour, dash in series:
        drawn.add_trace(curve(name, x, [max(value, FLOOR) for value in y], colour, dash=dash))
    drawn.add_trace(curve("δ / n", x, [-2 - k for k in x], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-32, 1])
    drawn.update_xaxes(range=[0, math.log10(30)], **power_ticks(1, 2, 3, 5, 10, 20, 30))
    columns: dict[str, list[Value]] = {"log10_n": list(x)}
    columns |= {name: list(y) for name, y, _, _ in series}
    text = (
        "Bounds over all data on the chance that a network does the wrong thing, tau = 1/4: from n = 10^5 on the three "
        "silent networks are below delta / n; softmax on D1 is below it with C = 1.5 and not with C = 1."
    )
    return Drawing(drawn, text, columns)
