"""Lemmas 5.1 to 5.4 of Deng, Song, Yuan and Zhou: the failure probabilities of the networks of softmax regression."""

from __future__ import annotations

import math

from separatrix.claims.separation.lemmas_5_1_to_5_4 import at_tau
from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.drawings.separation.lemmas_d_2_to_f_16 import FLOOR
from separatrix.report.tables import Results
from separatrix.report.theme import BLUE, GREEN, ORANGE, RED

_SERIES = (
    (1.5, "exp_silent_on_d0", Curve("softmax fires on D0", "softmax fires on D<sub>0</sub>", ORANGE)),
    (1.5, "lin_silent_on_d0", Curve("linear fires on D0", "linear fires on D<sub>0</sub>", BLUE)),
    (1.5, "lin_silent_on_d1", Curve("linear fires on D1", "linear fires on D<sub>1</sub>", GREEN)),
    (1.5, "exp_fires_on_d1", Curve("softmax silent on D1, C = 1.5", "softmax silent on D<sub>1</sub>, C = 1.5", RED)),
    (
        1.0,
        "exp_fires_on_d1",
        Curve("softmax silent on D1, C = 1", "softmax silent on D<sub>1</sub>, C = 1", RED, dash="dot"),
    ),
)
"""The width C of the network, the entry of its result, and the curve."""


@Curves(
    series=[series for _, _, series in _SERIES],
    x=Axis("log<sub>10</sub> n", "log10_n", log=True, range=(0, math.log10(30)), ticks=(1, 2, 3, 5, 10, 20, 30)),
    y=Axis("log<sub>10</sub> of the failure probability", range=(-32, 1)),
    bound=Bound("δ / n", lambda log10_n: -2 - log10_n),
    height=460,
)
def regression_failures(results: Results) -> Chart:
    """Lemmas 5.1 to 5.4: failure probabilities of the parts, and the allowed bound."""
    paths = {cell.parameters["width"]: cell.result for cell in at_tau(results)}
    rows = [
        {"log10_n": log10_n, **{series.column: paths[width][entry][at] for width, entry, series in _SERIES}}
        for at, log10_n in enumerate(paths[1.5]["log10_n"])
    ]
    # The logarithm of a probability of zero cannot be drawn.
    drawn = [{name: max(value, FLOOR) for name, value in row.items()} for row in rows]
    text = (
        "Bounds over all data on the failure probability of each network, tau = 1/4: from n = 10^5 on the three "
        "silent networks are below delta / n; softmax on D1 is below it with C = 1.5 and not with C = 1."
    )
    return drawn, text, rows
