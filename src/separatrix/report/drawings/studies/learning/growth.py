"""The savings from a bound on the scores: flops, seconds and bytes as n grows."""

from __future__ import annotations

from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import CellResult
from separatrix.report.charts import curve, drawing
from separatrix.report.drawings.studies.learning.runs import LINES
from separatrix.report.tables import Results, columns_of, rows_of
from separatrix.report.theme import THEME, Drawing, Value
from separatrix.studies.learning.growth import growth


def _columns(results: Results) -> dict[str, list[Value]]:
    names = ("attention", "n", "flops", "peak_bytes", "kept_bytes", "seconds")
    seconds = {(cell.parameters["attention"], cell.parameters["n"]): cell.seconds for cell in results if _timed(cell)}
    counted = [cell for cells in growth(results).values() for cell in cells]
    rows = [{**row, "seconds": seconds.get((row["attention"], row["n"]))} for row in rows_of(counted)]
    return columns_of(rows, *names)


def _timed(cell: CellResult) -> bool:
    return "gradient" in cell.result


@drawing
def learning_growth(results: Results) -> Drawing:
    """Bounded scores: the flops of attention and the time of a training step, against the length."""
    ours = growth(results)
    drawn = make_subplots(rows=1, cols=2, horizontal_spacing=0.16)
    drawn.update_layout(template=THEME, height=520, legend={"y": -0.2})
    for column, title in enumerate(("flops of attention", "seconds of a step"), start=1):
        drawn.update_xaxes(title_text="n", type="log", dtick=1, exponentformat="power", row=1, col=column)
        drawn.update_yaxes(
            title_text=title, type="log", dtick=2 if column == 1 else 1, exponentformat="power", row=1, col=column
        )
    for name, cells in ours.items():
        colour, dash = LINES[name]
        look = {"dash": dash, "legendgroup": name}
        n = [cell.parameters["n"] for cell in cells]
        drawn.add_trace(curve(name, n, [cell.result["flops"] for cell in cells], colour, **look), row=1, col=1)
        clocked = [(cell.parameters["n"], cell.seconds) for cell in growth(results, "gradient")[name] if cell.seconds]
        if clocked:
            x, seconds = zip(*clocked, strict=True)
            drawn.add_trace(curve(name, x, seconds, colour, **look, showlegend=False), row=1, col=2)
    last, bounded = ours["order 3"][-1], {cell.parameters["n"]: cell for cell in ours["order 3, R = 1"]}
    n = last.parameters["n"]
    less = last.result["flops"] / bounded[n].result["flops"]
    text = (
        "Flops of attention, and the seconds of a training step on the machine that ran it, against n: "
        f"cubic for order 3, linear for order 3 bounded by R; at n = {n} R = 1 has {less:.0f} times fewer flops."
    )
    return Drawing(drawn, text, _columns(results))


@drawing
def learning_bytes(results: Results) -> Drawing:
    """Peak live bytes in a step, and bytes kept for the next token, against n."""
    ours = growth(results)
    drawn = make_subplots(rows=1, cols=2, horizontal_spacing=0.16)
    drawn.update_layout(template=THEME, height=520, legend={"y": -0.2})
    titles = {"peak_bytes": "peak live bytes", "kept_bytes": "bytes kept to decode"}
    for column, (what, title) in enumerate(titles.items(), start=1):
        drawn.update_xaxes(title_text="n", type="log", dtick=1, exponentformat="power", row=1, col=column)
        drawn.update_yaxes(title_text=title, type="log", dtick=1, exponentformat="power", row=1, col=column)
        for name, cells in ours.items():
            colour, dash = LINES[name]
            n, values = [cell.parameters["n"] for cell in cells], [cell.result[what] for cell in cells]
            look = {"dash": dash, "legendgroup": name, "showlegend": column == 1}
            drawn.add_trace(curve(name, n, values, colour, **look), row=1, col=column)
    state, cache = (ours[name][-1] for name in ("order 3, R = 1", "order 3"))
    meets = state.result["kept_bytes"] / cache.result["kept_bytes"] * cache.parameters["n"]
    text = (
        "Peak live bytes in a training step, more for bounded layers, whose running sums fill a chunk, and bytes kept "
        "to decode the next token, which do not grow for bounded layers: R = 1 keeps fewer than order 3 from n = "
        f"{meets:.0f}."
    )
    return Drawing(drawn, text, _columns(results))
