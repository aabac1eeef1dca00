"""Section 1.1 of Alman and Song: the largest order that the rule allows."""

from __future__ import annotations

from separatrix.report.charts import Axis, Chart, Map
from separatrix.report.tables import Results, one_row_per_entry, rows_of
from separatrix.report.theme import SCALE

_TOP = 8
"""The largest order with a separate colour; larger orders have the same colour."""
_BAR = {"title": "order", "tickvals": list(range(0, _TOP + 1, 2)), "ticktext": ["0", "2", "4", "6", f"{_TOP}+"]}


@Map(
    z="colour",
    text="order",
    x=Axis("entry bound B", "bound", log=True, ticks=(1.1, 1.5, 2, 3, 4, 6)),
    y=Axis("log<sub>2</sub> n", "log2_n"),
    hover="B = %{x}<br>n = 2^%{y}<br>order %{text}",
    height=460,
    look={"colorscale": SCALE, "colorbar": _BAR, "texttemplate": "%{text}"},
    columns=("log2_n", "bound", "order", "exponent", "exponent_above"),
)
def largest_order(results: Results) -> Chart:
    """Section 1.1: the largest order k with B < (ln n)^(1/k), over B and n."""
    cells = sorted(rows_of(results), key=lambda row: int(row["log2_n"]))
    named = [{**row, "bound": row["bounds"], "exponent_above": row["above"]} for row in cells]
    rows = one_row_per_entry(named, "bound", "order", "exponent", "exponent_above")
    last = dict(zip(cells[-1]["bounds"], cells[-1]["order"], strict=True))
    return [{**row, "colour": min(row["order"], _TOP)} for row in rows], (
        f"The largest order by the rule over B and n: it grows with n and falls with B; at n = 2^{cells[-1]['log2_n']} "
        f"it is {last[1.5]} for B = 1.5 and {last[3.0]} for B = 3."
    )
