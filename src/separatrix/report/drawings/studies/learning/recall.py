"""The bound R that it takes to recall: how large it must be for one tuple to have half of the attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing, rows_of
from separatrix.report.theme import COLOURS, GREY, Drawing, Value, figure
from separatrix.studies.learning.mechanisms import RADII
from separatrix.studies.learning.sharpness import radius_for_half


@drawing
def recall_radius(found: Sequence[Found]) -> Drawing:
    """The least R that lets one tuple have half of the attention, against n."""
    drawn = figure("tokens n", "least R for half of the attention", log_x=True, log_y=True, height=460)
    lengths = [2**exponent for exponent in range(2, 15)]
    columns: dict[str, list[Value]] = {name: [] for name in ("order", "n", "R")}
    for order, colour in zip((2, 3, 4), COLOURS, strict=False):
        radii = [radius_for_half(n ** (order - 1)) for n in lengths]
        drawn.add_trace(curve(f"order {order}", lengths, radii, colour, mode="lines"))
        for n, R in zip(lengths, radii, strict=True):
            for name, value in zip(columns, (order, n, R), strict=True):
                columns[name].append(value)
    rows = [row for row in rows_of(found) if row["order"] <= 4]
    x, y = [row["n"] for row in rows], [radius_for_half(row["n"] ** (row["order"] - 1)) for row in rows]
    drawn.add_trace(curve("inputs recalled by hand", x, y, GREY, mode="markers", marker={"size": 9}))
    drawn.update_xaxes(dtick=1)
    marks = [*RADII, 8, 16]
    drawn.update_yaxes(tickvals=marks, ticktext=[f"{R:g}" for R in marks])
    reach = int((math.exp(2 * RADII[-1]) + 1) ** 0.5)
    text = (
        "The least bound R at which one of n^(k-1) tuples can have half of the attention, against n: it grows as "
        f"(k - 1)/2 ln n, to {radius_for_half(lengths[-1] ** 2):.1f} for order 3 at n = {lengths[-1]:,}; "
        f"R = {RADII[-1]:g} reaches n = {reach}."
    )
    return Drawing(drawn, text, columns)
