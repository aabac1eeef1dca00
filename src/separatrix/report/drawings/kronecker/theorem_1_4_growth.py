"""Theorem 1.4 of Alman and Song: flops and seconds of the near-linear algorithm as n grows."""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import curve, drawing, tick_labels
from separatrix.report.tables import Results, columns_of, rows_of
from separatrix.report.theme import COLOURS, THEME, Drawing


@drawing
def linear_growth(results: Results) -> Drawing:
    """Theorem 1.4: counted and planned flops and those of exact attention against n, and the seconds of single runs."""
    rows = sorted(rows_of(results), key=lambda row: (row["order"], row["n"]))
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
                (cell.parameters["n"], cell.seconds)
                for cell in results
                if cell.parameters["order"] == order and cell.result.get("timed") == method and cell.seconds
            )
            if timed:
                lengths, seconds = zip(*timed, strict=True)
                drawn.add_trace(curve(method, lengths, seconds, colour, **look, showlegend=False), row=1, col=2)
    drawn.update_xaxes(**tick_labels(row["n"] for row in counted if row["n"] in (128, 1024, 8192)))
    equal = all(row["counted_flops"] == row["planned_flops"] for row in counted)
    text = (
        f"Against n, for orders 2, 3 and 4: the counted flops, which {'equal' if equal else 'differ from'} the planned"
        " flops, grow as n, those of exact attention as n^k; and the seconds of single runs, on which no verdict "
        "depends."
    )
    names = ("method", "order", "n", "rank", "counted_flops", "planned_flops", "exact_flops", "state_bytes")
    table = [{"method": "near-linear", **row} for row in counted]
    timed_cells = [cell for cell in results if "timed" in cell.result]
    table += [{"method": cell.result["timed"], **cell.parameters, "seconds": cell.seconds} for cell in timed_cells]
    return Drawing(drawn, text, columns_of(table, *names, "certificate", "seconds"))
