"""The smallest bound R at which one tuple can have half of the attention."""

from __future__ import annotations

import math

from separatrix.report.charts import Axis, Curve, Curves, curve, drawing
from separatrix.report.tables import Results, columns_of, rows_of
from separatrix.report.theme import GREY, Drawing
from separatrix.studies.learning.mechanisms import RADII
from separatrix.studies.learning.sharpness import radius_for_half

_RADII = Curves(
    series=Curve("R", "order {order}", mode="lines"),
    by=("order",),
    x=Axis("tokens n", "n", log=True, dtick=1),
    y=Axis("smallest R for half of the attention", log=True, ticks=(*RADII, 8, 16)),
    height=460,
)


@drawing
def recall_radius(results: Results) -> Drawing:
    """The smallest score bound R at which one tuple can have half of the attention, against the length."""
    lengths = [2**exponent for exponent in range(2, 15)]
    rows = [{"order": order, "n": n, "R": radius_for_half(n ** (order - 1))} for order in (2, 3, 4) for n in lengths]
    drawn = _RADII.figure(rows)
    recalled = [
        (row["n"], radius_for_half(row["n"] ** (row["order"] - 1))) for row in rows_of(results) if row["order"] <= 4
    ]
    x, y = zip(*recalled, strict=True)
    drawn.add_trace(curve("inputs recalled by hand", x, y, GREY, mode="markers", marker={"size": 9}))
    reach = int((math.exp(2 * RADII[-1]) + 1) ** 0.5)
    text = (
        "The smallest bound R at which one of n^(k-1) tuples can have half of the attention, against n: it grows as "
        f"(k - 1)/2 ln n, to {radius_for_half(lengths[-1] ** 2):.1f} for order 3 at n = {lengths[-1]:,}; "
        f"R = {RADII[-1]:g} reaches n = {reach}."
    )
    return Drawing(drawn, text, columns_of(rows, "order", "n", "R"))
