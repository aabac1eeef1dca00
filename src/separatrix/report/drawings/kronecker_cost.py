"""Alman and Song's theorems on cost: linear growth, the threshold, the largest order."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import Row, columns_of, curve, drawing, rows_of, ticks
from separatrix.report.theme import COLOURS, GREY, SCALE, THEME, Drawing, Value, figure


@drawing
def linear_growth(found: Sequence[Found]) -> Drawing:
    """Theorem 1.4: counted flops against n, beside the plan's and exact attention's; and the seconds of single runs."""
    rows = sorted(rows_of(found), key=lambda row: (row["order"], row["n"]))
    counted = [row for row in rows if "counted_flops" in row]
    drawn = make_subplots(rows=1, cols=2)
    drawn.update_layout(template=THEME, height=480)
    power = {"type": "log", "exponentformat": "power"}
    for column, (title, step) in enumerate((("flops", 2), ("seconds of one run, one core", 1)), start=1):
        drawn.update_xaxes(title_text="length n", **power, row=1, col=column)
        drawn.update_yaxes(title_text=title, **power, dtick=step, row=1, col=column)
    for order, colour in zip(sorted({row["order"] for row in counted}), COLOURS, strict=False):
        line = [row for row in counted if row["order"] == order]
        n = [row["n"] for row in line]
        flops, rank = [row["counted_flops"] for row in line], line[-1]["rank"]
        near, exact = {"legendgroup": f"{order}"}, {"legendgroup": f"{order}, exact", "dash": "dot", "mode": "lines"}
        drawn.add_trace(curve(f"k = {order}, near-linear (rank {rank})", n, flops, colour, **near), row=1, col=1)
        plan = {"color": colour, "symbol": "circle-open", "size": 13}
        planned = [row["planned_flops"] for row in line]
        rings = go.Scatter(name=f"k = {order}, planned", x=n, y=planned, mode="markers", marker=plan)
        drawn.add_trace(rings, row=1, col=1)
        named = f"k = {order}, exact attention"
        drawn.add_trace(curve(named, n, [row["exact_flops"] for row in line], colour, **exact), row=1, col=1)
        for method, look in (("near-linear", near), ("exact", exact)):
            timed = sorted(
                (one.parameters["n"], one.seconds)
                for one in found
                if one.parameters["order"] == order and one.result.get("timed") == method and one.seconds
            )
            if timed:
                lengths, seconds = zip(*timed, strict=True)
                drawn.add_trace(curve(method, lengths, seconds, colour, **look, showlegend=False), row=1, col=2)
    ticks(drawn, (row["n"] for row in counted if row["n"] in (128, 1024, 8192)))
    equal = all(row["counted_flops"] == row["planned_flops"] for row in counted)
    text = (
        f"Against n, for orders 2, 3 and 4: the flops counted, which {'are' if equal else 'are not'} those planned, "
        "grow as n, those of exact attention as the order's power of n; and the seconds that single runs of both took, "
        "which judge nothing."
    )
    names = ("order", "n", "rank", "counted_flops", "planned_flops", "exact_flops", "state_bytes", "certificate")
    columns: dict[str, list[Value]] = {"method": ["near-linear"] * len(counted), **columns_of(counted, *names)}
    columns["seconds"] = [None] * len(counted)
    for one in found:
        if "timed" in one.result:
            values = {"method": one.result["timed"], **one.parameters, "seconds": one.seconds}
            for name, cells in columns.items():
                cells.append(values.get(name))
    return Drawing(drawn, text, columns)


def _grid(found: Sequence[Found]) -> dict[int, list[Row]]:
    """The rows of the phase diagram by order, n growing."""
    rows = [row for row in rows_of(found) if "polynomial_exponent" in row]
    orders = sorted({row["order"] for row in rows})
    return {k: sorted((row for row in rows if row["order"] == k), key=lambda row: int(row["log2_n"])) for k in orders}


@drawing
def threshold_phase_diagram(found: Sequence[Found]) -> Drawing:
    """Theorems 1.3 and 1.4: the exponent of the cheaper algorithm over B / (ln n)^(1/k) and n, an order a panel."""
    grid = _grid(found)
    drawn = make_subplots(rows=1, cols=len(grid), shared_yaxes=True, subplot_titles=[f"order {k}" for k in grid])
    drawn.update_layout(
        template=THEME,
        height=480,
        margin={"t": 60},
        coloraxis={"colorscale": SCALE, "colorbar": {"title": "log<sub>n</sub> flops"}},
    )
    columns: dict[str, list[Value]] = {
        name: [] for name in ("order", "log2_n", "ratio", "degree", "polynomial_exponent", "exact_exponent")
    }
    for column, (order, rows) in enumerate(grid.items(), start=1):
        n = [row["log2_n"] for row in rows]
        z = [[min(value, row["exact_exponent"]) for value in row["polynomial_exponent"]] for row in rows]
        hover = "n = 2^%{y}<br>B = %{x:.2f} (ln n)^(1/k)<br>exponent %{z:.2f}<extra></extra>"
        heat = go.Heatmap(x=rows[0]["ratios"], y=n, z=z, coloraxis="coloraxis", hovertemplate=hover)
        drawn.add_trace(heat, row=1, col=column)
        border = curve(
            "exact attention is cheaper to the right", [row["border"] for row in rows], n, "#ff4d4d",
            mode="lines", showlegend=column == 1, legendgroup="border",
        )  # fmt: skip
        drawn.add_trace(border, row=1, col=column)
        drawn.update_xaxes(range=[0.02, rows[0]["ratios"][-1]], row=1, col=column)
        for row in rows:
            for at, ratio in enumerate(row["ratios"]):
                values = (order, row["log2_n"], ratio, row["degree"][at], row["polynomial_exponent"][at])
                for name, value in zip(columns, (*values, row["exact_exponent"]), strict=True):
                    columns[name].append(value)
    # One title under the middle panel: on a phone three would run into each other.
    drawn.update_xaxes(title_text="B / (ln n)<sup>1/k</sup>", row=1, col=(len(grid) + 1) // 2)
    drawn.update_yaxes(title_text="log<sub>2</sub> n", row=1, col=1)
    borders = ", ".join(f"{rows[-1]['border']:.2f} at order {k}" for k, rows in grid.items())
    text = (
        "The exponent of n in the cost of the cheaper algorithm, over B / (ln n)^(1/k) and n: it rises with B until "
        f"exact attention takes over, at n = 2^{next(iter(grid.values()))[-1]['log2_n']} from {borders}."
    )
    return Drawing(drawn, text, columns)


@drawing
def threshold_limit(found: Sequence[Found]) -> Drawing:
    """Theorem 1.4 at order 3: exponents against the ratio for several n, and their limit."""
    rows = _grid(found)[3]
    limit = next(row for row in rows_of(found) if "limit" in row and row["order"] == 3)
    drawn = figure("B / (ln n)<sup>1/3</sup>", "log<sub>n</sub> of the polynomial method's flops", height=460)
    shown = [row for row in rows if row["log2_n"] in (10, 20, 40)]
    for row, colour in zip(shown, COLOURS, strict=False):
        label = f"n = 2<sup>{row['log2_n']}</sup>"
        drawn.add_trace(curve(label, row["ratios"], row["polynomial_exponent"], colour, mode="lines"))
    drawn.add_trace(curve("limit", limit["ratios"], limit["limit"], GREY, mode="lines", dash="dash"))
    drawn.add_hline(y=3, line={"color": GREY, "width": 1}, annotation_text="cubic", annotation_position="top left")
    drawn.add_hline(y=1, line={"color": GREY, "width": 1}, annotation_text="linear", annotation_position="top right")
    drawn.update_yaxes(range=[0.8, 6])
    columns: dict[str, list[Value]] = {"ratio": list(limit["ratios"]), "limit": list(limit["limit"])}
    columns |= {f"n = 2^{row['log2_n']}": list(row["polynomial_exponent"]) for row in shown}
    text = (
        "The exponent at order 3 against B / (ln n)^(1/3) for n = 2^10, 2^20, 2^40 falls slowly to its limit, which is "
        f"cubic at {limit['border']:.2f} and reaches 1 only as the ratio goes to 0."
    )
    return Drawing(drawn, text, columns)


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
