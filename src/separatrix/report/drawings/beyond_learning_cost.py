"""What a bound on the scores costs and buys: time and bytes as n grows, the R that one tuple needs, two roads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.beyond.learning_growth import growth
from separatrix.claims.beyond.learning_polynomial import kind_of
from separatrix.claims.ledger import Found
from separatrix.learning.mechanisms import RADII
from separatrix.learning.sharpness import radius_for_half
from separatrix.report.drawings.beyond_learning import LINES
from separatrix.report.strokes import columns_of, curve, drawing, rows_of
from separatrix.report.theme import BLUE, COLOURS, GREY, ORANGE, THEME, Drawing, Value, figure


def _columns(found: Sequence[Found]) -> dict[str, list[Value]]:
    names = ("attention", "n", "flops", "peak_bytes", "kept_bytes", "seconds")
    seconds = {(one.parameters["attention"], one.parameters["n"]): one.seconds for one in found if _timed(one)}
    counted = [one for some in growth(found).values() for one in some]
    rows = [{**one.parameters, **one.result} for one in counted]
    return columns_of([{**row, "seconds": seconds.get((row["attention"], row["n"]))} for row in rows], *names)


def _timed(one: Found) -> bool:
    return "gradient" in one.result


@drawing
def learning_growth(found: Sequence[Found]) -> Drawing:
    """Flops of attention by formula, and the seconds of a step, against n."""
    ours = growth(found)
    drawn = make_subplots(rows=1, cols=2, horizontal_spacing=0.16)
    drawn.update_layout(template=THEME, height=520, legend={"y": -0.2})
    for column, title in enumerate(("flops of attention", "seconds of a step"), start=1):
        drawn.update_xaxes(title_text="n", type="log", dtick=1, exponentformat="power", row=1, col=column)
        drawn.update_yaxes(
            title_text=title, type="log", dtick=2 if column == 1 else 1, exponentformat="power", row=1, col=column
        )
    for name, some in ours.items():
        colour, dash = LINES[name]
        look = {"dash": dash, "legendgroup": name}
        n = [one.parameters["n"] for one in some]
        drawn.add_trace(curve(name, n, [one.result["flops"] for one in some], colour, **look), row=1, col=1)
        clocked = [(one.parameters["n"], one.seconds) for one in growth(found, "gradient")[name] if one.seconds]
        if clocked:
            x, seconds = zip(*clocked, strict=True)
            drawn.add_trace(curve(name, x, seconds, colour, **look, showlegend=False), row=1, col=2)
    last, bounded = ours["order 3"][-1], {one.parameters["n"]: one for one in ours["order 3, R = 1"]}
    n = last.parameters["n"]
    less = last.result["flops"] / bounded[n].result["flops"]
    text = (
        "Flops of attention, and the seconds of a step forwards and backwards on the machine that ran it, against n: "
        f"cubic for order 3, linear for order 3 bounded by R; at n = {n} R = 1 has {less:.0f} times fewer flops."
    )
    return Drawing(drawn, text, _columns(found))


@drawing
def learning_bytes(found: Sequence[Found]) -> Drawing:
    """Bytes alive at once in a step, and bytes kept for the next token, against n."""
    ours = growth(found)
    drawn = make_subplots(rows=1, cols=2, horizontal_spacing=0.16)
    drawn.update_layout(template=THEME, height=520, legend={"y": -0.2})
    titles = {"peak_bytes": "bytes alive at once", "kept_bytes": "bytes kept to decode"}
    for column, (what, title) in enumerate(titles.items(), start=1):
        drawn.update_xaxes(title_text="n", type="log", dtick=1, exponentformat="power", row=1, col=column)
        drawn.update_yaxes(title_text=title, type="log", dtick=1, exponentformat="power", row=1, col=column)
        for name, some in ours.items():
            colour, dash = LINES[name]
            n, values = [one.parameters["n"] for one in some], [one.result[what] for one in some]
            look = {"dash": dash, "legendgroup": name, "showlegend": column == 1}
            drawn.add_trace(curve(name, n, values, colour, **look), row=1, col=column)
    state, cache = (ours[name][-1] for name in ("order 3, R = 1", "order 3"))
    meets = state.result["kept_bytes"] / cache.result["kept_bytes"] * cache.parameters["n"]
    text = (
        "Bytes alive at once in a step of training, more for bounded layers, whose running sums fill a chunk; and "
        f"those kept to decode the next token, which do not grow for bounded layers: R = 1 keeps fewer than order 3 "
        f"from n = {meets:.0f}."
    )
    return Drawing(drawn, text, _columns(found))


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


@drawing
def learning_roads(found: Sequence[Found]) -> Drawing:
    """Losses on the way, by exact attention of bounded scores and by the polynomial method."""
    kinds = list(dict.fromkeys(map(kind_of, found)))
    drawn = figure("steps of training", "held-out loss, nats", height=400 + 30 * len(kinds))
    columns: dict[str, list[Value]] = {
        name: [] for name in ("task", "attention", "seed", "step", "exact", "polynomial")
    }
    apart = 0.0
    for index, kind in enumerate(kinds):
        some = [one for one in found if kind_of(one) == kind]
        steps = list(some[0].result["step"])
        for road, colour, dash in (("exact", BLUE, "solid"), ("polynomial", ORANGE, "dot")):
            losses = [fmean(values) for values in zip(*(one.result[f"{road}_loss"] for one in some), strict=True)]
            marker = {"symbol": ("circle", "square", "diamond", "cross", "x", "star")[index % 6], "size": 8}
            label = f"{kind[0]}, {kind[1].removeprefix('order 3, ')}, {road}"
            drawn.add_trace(curve(label, steps, losses, colour, dash=dash, marker=marker))
        for one in some:
            apart = max(apart, abs(one.result["exact_loss"][-1] - one.result["polynomial_loss"][-1]))
            for row in zip(steps, one.result["exact_loss"], one.result["polynomial_loss"], strict=True):
                for name, value in zip(columns, (*kind, one.seed, *row), strict=True):
                    columns[name].append(value)
    text = (
        "The loss of bounded models against steps, trained with exact attention of their scores and by the polynomial "
        f"method from the same weights on the same inputs: at the end at most {apart:.2g} nats apart in a seed."
    )
    return Drawing(drawn, text, columns)
