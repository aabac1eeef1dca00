"""The smallest bound R at which one tuple can have half of the attention."""

from __future__ import annotations

import math

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.tables import Results, rows_of
from separatrix.report.theme import GREY
from separatrix.studies.learning.mechanisms import RADII
from separatrix.studies.learning.sharpness import radius_for_half


@Curves(
    series=(
        Curve("R", "order {order}", mode="lines"),
        Curve("recalled", "inputs recalled by hand", GREY, mode="markers", size=9),
    ),
    by=("order",),
    x=Axis("tokens n", "n", log=True, dtick=1),
    y=Axis("smallest R for half of the attention", log=True, ticks=(*RADII, 8, 16)),
    height=460,
)
def recall_radius(results: Results) -> Chart:
    """The smallest score bound R at which one tuple can have half of the attention, against the length."""
    lengths = [2**exponent for exponent in range(2, 15)]
    rows = [{"order": order, "n": n, "R": radius_for_half(n ** (order - 1))} for order in (2, 3, 4) for n in lengths]
    recalled = [
        {"order": None, "n": row["n"], "recalled": radius_for_half(row["n"] ** (row["order"] - 1))}
        for row in rows_of(results)
        if row["order"] <= 4
    ]
    reach = int((math.exp(2 * RADII[-1]) + 1) ** 0.5)
    text = (
        "The smallest bound R at which one of n^(k-1) tuples can have half of the attention, against n: it grows as "
        f"(k - 1)/2 ln n, to {radius_for_half(lengths[-1] ** 2):.1f} for order 3 at n = {lengths[-1]:,}; "
        f"R = {RADII[-1]:g} reaches n = {reach}."
    )
    return [*rows, *recalled], text, rows
