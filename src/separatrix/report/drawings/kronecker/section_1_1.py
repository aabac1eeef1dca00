"""Section 1.1 of Alman and Song: the largest order that the rule allows."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import drawing, rows_of
from separatrix.report.theme import SCALE, Drawing, Value, figure


@drawing
def largest_order(found: Sequence[Found]) -> Drawing:
    """The largest order with B < (ln n)^(1/k), over B and n."""
    rows = sorted(rows_of(found), key=lambda row: int(row["log2_n"]))
    bounds, n = rows[0]["bounds"], [row["log2_n"] for row in rows]
    drawn = figure("entry bound B", "log<sub>2</sub> n", log_x=True, height=460)
    top = 8
    z = [[min(order, top) for order in row["order"]] for row in rows]
    text_at = [[str(order) for order in row["order"]] for row in rows]
    bar = {"title": "order", "tickvals": list(range(0, top + 1, 2)), "ticktext": ["0", "2", "4", "6", f"{top}+"]}
    hover = "B = %{x}<br>n = 2^%{y}<br>order %{text}<extra></extra>"
    drawn.add_trace(
        go.Heatmap(
            x=bounds,
            y=n,
            z=z,
            text=text_at,
            texttemplate="%{text}",
            colorscale=SCALE,
            colorbar=bar,
            hovertemplate=hover,
        )
    )
    ticks = [1.1, 1.5, 2, 3, 4, 6]
    drawn.update_xaxes(tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    columns: dict[str, list[Value]] = {name: [] for name in ("log2_n", "bound", "order", "exponent", "exponent_above")}
    for row in rows:
        for values in zip(bounds, row["order"], row["exponent"], row["above"], strict=True):
            for name, value in zip(columns, (row["log2_n"], *values), strict=True):
                columns[name].append(value)
    last = dict(zip(bounds, rows[-1]["order"], strict=True))
    text = (
        f"The largest order by the rule over B and n: it grows with n and falls with B; at n = 2^{n[-1]} it is "
        f"{last[1.5]} for B = 1.5 and {last[3.0]} for B = 3."
    )
    return Drawing(drawn, text, columns)
