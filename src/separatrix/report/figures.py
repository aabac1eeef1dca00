"""Figures by name, each from the results of a claim's cells. Claims name them; report and explorer draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.errors import ArgumentError
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, SCALE, THEME, Drawing, Value, figure

FIGURES: dict[str, Callable[[Sequence[Found]], Drawing]] = {}


def _named(function: Callable[[Sequence[Found]], Drawing]) -> Callable[[Sequence[Found]], Drawing]:
    FIGURES[function.__name__] = function
    return function


def draw(name: str, found: Sequence[Found]) -> Drawing:
    """The figure called `name`, of all the cells of a claim that names it."""
    if name not in FIGURES:
        raise ArgumentError("figure", expected=" or ".join(sorted(FIGURES)), got=name)
    return FIGURES[name](found)


Row = Mapping[str, Any]


def _rows(found: Iterable[Found]) -> list[Row]:
    """Parameters and results side by side."""
    return [{**one.parameters, **one.result} for one in found]


def _columns(rows: Sequence[Row], *names: str) -> dict[str, list[Value]]:
    return {name: [row[name] for row in rows] for name in names}


def _curve(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, **more: Any) -> go.Scatter:
    """A line with dots."""
    line = {"color": colour, "dash": more.pop("dash", "solid")}
    return go.Scatter(name=name, x=list(x), y=list(y), mode=more.pop("mode", "lines+markers"), line=line, **more)


def _ticks(drawn: go.Figure, values: Iterable[float]) -> None:
    """Number the x axis at these values."""
    at = sorted(set(values))
    drawn.update_xaxes(tickvals=at, ticktext=[f"{value:g}" for value in at])


def _bound(drawn: go.Figure, values: Iterable[float]) -> None:
    """A dashed line at 1, across these x. (Plotly puts the label of a drawn line wrongly on a logarithmic axis.)"""
    x = sorted(set(values))
    drawn.add_trace(_curve("the bound", [x[0], x[-1]], [1, 1], GREY, mode="lines", dash="dash"))


@_named
def kronecker_product_flops(found: Sequence[Found]) -> Drawing:
    """Lemma C.3: flops of A^T B computed directly and by its factors."""
    widest = max((row["d1"], row["d2"]) for row in _rows(found))
    rows = {row["n"]: row for row in _rows(found) if (row["d1"], row["d2"]) == widest}
    chosen = [rows[n] for n in sorted(rows)]
    drawn = figure("rows n of each factor", "flops counted", log_x=True, log_y=True)
    n = [row["n"] for row in chosen]
    drawn.add_trace(_curve("A<sup>T</sup>B as defined", n, [row["direct_flops"] for row in chosen], RED))
    drawn.add_trace(_curve("by its factors", n, [row["factored_flops"] for row in chosen], BLUE))
    _ticks(drawn, n)
    last = chosen[-1]
    text = (
        f"Flops against n on logarithmic axes: the defined product grows as n squared, the factored one as n; at n = "
        f"{last['n']} they are {last['direct_flops']:,} and {last['factored_flops']:,}."
    )
    return Drawing(drawn, text, _columns(chosen, "n", "d1", "d2", "direct_flops", "factored_flops"))


@_named
def score_bound(found: Sequence[Found]) -> Drawing:
    """Lemma D.3: the largest score against B, below B^3."""
    drawn = figure("entry bound B", "largest score / B<sup>3</sup>", log_x=True)
    bounds = {one.parameters["bound"] for one in found}
    _ticks(drawn, bounds)
    _bound(drawn, bounds)
    d = max(one.parameters["d"] for one in found)
    rows = sorted((row for row in map(_score, found) if row["d"] == d), key=lambda row: (row["entries"], row["bound"]))
    for kind, colour in zip(sorted({row["entries"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["entries"] == kind]
        drawn.add_trace(_curve(kind, [row["bound"] for row in line], [row["ratio"] for row in line], colour))
    drawn.update_yaxes(range=[0, 1.15])
    text = (
        f"The largest score over B cubed against B at d = {d}, for uniform, extreme and aligned entries: never above "
        "1, which the last reach."
    )
    return Drawing(drawn, text, _columns(rows, "entries", "d", "bound", "largest", "ratio"))


def _score(one: Found) -> Row:
    # The kind of entries is a parameter, and the result counts entries.
    return {**one.result, **one.parameters}


@_named
def denominator_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.5: error of the row sums over its bound."""
    rows = sorted(_rows(found), key=lambda row: (row["errors"], row["n"], row["thousandths"]))
    drawn = figure("ε<sub>A</sub>", "error of D / bound", log_x=True)
    epsilons = {row["thousandths"] / 1000 for row in rows}
    _ticks(drawn, epsilons)
    _bound(drawn, epsilons)
    for (kind, n), colour in zip(sorted({(row["errors"], row["n"]) for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if (row["errors"], row["n"]) == (kind, n)]
        x, y = [row["thousandths"] / 1000 for row in line], [row["ratio"] for row in line]
        dash = "solid" if kind == "random" else "dot"
        drawn.add_trace(_curve(f"{kind} errors, n = {n}", x, y, colour, dash=dash))
    drawn.update_yaxes(range=[0, 1.15])
    largest = max(row["ratio"] for row in rows)
    text = (
        f"Errors of the row sums over the bound of the lemma, for every epsilon: at most {largest:.3g}, which errors "
        "of one sign reach."
    )
    return Drawing(drawn, text, _columns(rows, "errors", "n", "thousandths", "ratio"))


@_named
def output_error(found: Sequence[Found]) -> Drawing:
    """Lemma D.6: error of the output over its bound, with and without D and D~ being row sums."""
    kinds = list(dict.fromkeys(row["normaliser"] for row in _rows(found)))
    drawn = figure("ε<sub>A</sub> = ε<sub>D</sub>", "error of the output / bound", log_x=True, log_y=True)
    epsilons = {one.result["epsilon"] for one in found}
    _ticks(drawn, epsilons)
    _bound(drawn, epsilons)
    columns: dict[str, list[Value]] = {"normaliser": [], "epsilon": [], "ratio": []}
    for kind, colour in zip(kinds, (BLUE, GREEN, ORANGE, RED), strict=True):
        rows = [row for row in _rows(found) if row["normaliser"] == kind]
        x = sorted({row["epsilon"] for row in rows})
        y = [max(row["ratio"] for row in rows if row["epsilon"] == epsilon) for epsilon in x]
        drawn.add_trace(_curve(kind.replace("eps_D", "ε<sub>D</sub>"), x, y, colour))
        columns["normaliser"] += [kind] * len(x)
        columns["epsilon"] += x
        columns["ratio"] += y
    text = (
        "Errors of the output relative to the lemma's bound against epsilon: about half of it or less where D and D~ "
        "are row sums, above it where they are only within epsilon of each other, and far above where D is unrelated."
    )
    return Drawing(drawn, text, columns)


@_named
def sharp_rank(found: Sequence[Found]) -> Drawing:
    """Lemma E.1: the columns that do, beside the printed count."""
    rows = [row | {"printed": float(row["printed"])} for row in map(dict, _rows(found))]
    rows.sort(key=lambda row: (row["d"], row["degree"]))
    drawn = figure("degree g", "columns r", log_y=True)
    for d, colour in zip(sorted({row["d"] for row in rows}), COLOURS, strict=True):
        line = [row for row in rows if row["d"] == d]
        g = [row["degree"] for row in line]
        drawn.add_trace(_curve(f"d = {d}, needed", g, [row["columns"] for row in line], colour))
        printed = [row["printed"] for row in line]
        drawn.add_trace(_curve(f"d = {d}, printed", g, printed, colour, dash="dot", mode="lines"))
    last = rows[-1]
    text = (
        f"Columns against the degree for several d on a logarithmic axis: the printed count is far above what is "
        f"needed; at d = {last['d']}, g = {last['degree']} it is {last['printed']:.3g} against {last['columns']:,}."
    )
    return Drawing(drawn, text, _columns(rows, "d", "degree", "columns", "needed", "printed"))


@_named
def definition_errors(found: Sequence[Found]) -> Drawing:
    """Definition 1.5: the library's algorithms against the definition."""
    rows = sorted(_rows(found), key=lambda row: (row["order"], row["n"]))
    drawn = figure("order k and length n", "largest difference", log_y=True)
    x = [f"k = {row['order']}, n = {row['n']}" for row in rows]
    for name, label, colour in (
        ("exact", "exact", BLUE),
        ("polynomial", "polynomial", GREEN),
        ("certificate", "its certificate", GREY),
        ("printed", "the brackets as printed", RED),
    ):
        y = [row[name] or None for row in rows]
        drawn.add_trace(go.Scatter(name=label, x=x, y=y, mode="markers", marker={"color": colour, "size": 10}))
    worst = max(row["exact"] for row in rows)
    text = (
        f"Differences from the definition by order: exact attention within {worst:.1g}, the polynomial method below "
        "its certificates, the formula with the printed brackets far off wherever d > 1."
    )
    return Drawing(drawn, text, _columns(rows, "order", "n", "d", "exact", "polynomial", "certificate", "printed"))


@_named
def linear_growth(found: Sequence[Found]) -> Drawing:
    """Theorem 1.4: counted flops against n, beside the plan's and exact attention's."""
    rows = sorted(_rows(found), key=lambda row: (row["order"], row["n"]))
    drawn = figure("length n", "flops", log_x=True, log_y=True, height=460)
    for order, colour in zip(sorted({row["order"] for row in rows}), COLOURS, strict=False):
        line = [row for row in rows if row["order"] == order]
        n = [row["n"] for row in line]
        counted, rank = [row["counted_flops"] for row in line], line[-1]["rank"]
        drawn.add_trace(_curve(f"k = {order}, counted (rank {rank})", n, counted, colour))
        plan = {"color": colour, "symbol": "circle-open", "size": 13}
        planned = [row["planned_flops"] for row in line]
        drawn.add_trace(go.Scatter(name=f"k = {order}, planned", x=n, y=planned, mode="markers", marker=plan))
        exact = [row["exact_flops"] for row in line]
        drawn.add_trace(_curve(f"k = {order}, exact attention", n, exact, colour, dash="dot", mode="lines"))
    _ticks(drawn, (row["n"] for row in rows))
    text = (
        "Flops against n on logarithmic axes for orders 2, 3 and 4: those counted lie on those planned and grow as n, "
        "those of exact attention as the order's power of n."
    )
    names = ("order", "n", "rank", "counted_flops", "planned_flops", "exact_flops", "state_bytes", "certificate")
    return Drawing(drawn, text, _columns(rows, *names))


def _grid(found: Sequence[Found]) -> dict[int, list[Row]]:
    """The rows of the phase diagram by order, n growing."""
    rows = [row for row in _rows(found) if "polynomial_exponent" in row]
    orders = sorted({row["order"] for row in rows})
    return {k: sorted((row for row in rows if row["order"] == k), key=lambda row: int(row["log2_n"])) for k in orders}


@_named
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
        border = _curve(
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


@_named
def threshold_limit(found: Sequence[Found]) -> Drawing:
    """Theorem 1.4 at order 3: exponents against the ratio for several n, and their limit."""
    rows = _grid(found)[3]
    limit = next(row for row in _rows(found) if "limit" in row and row["order"] == 3)
    drawn = figure("B / (ln n)<sup>1/3</sup>", "log<sub>n</sub> of the polynomial method's flops", height=460)
    shown = [row for row in rows if row["log2_n"] in (10, 20, 40)]
    for row, colour in zip(shown, COLOURS, strict=False):
        label = f"n = 2<sup>{row['log2_n']}</sup>"
        drawn.add_trace(_curve(label, row["ratios"], row["polynomial_exponent"], colour, mode="lines"))
    drawn.add_trace(_curve("limit", limit["ratios"], limit["limit"], GREY, mode="lines", dash="dash"))
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


@_named
def largest_order(found: Sequence[Found]) -> Drawing:
    """The largest order with B < (ln n)^(1/k), over B and n."""
    rows = sorted(_rows(found), key=lambda row: int(row["log2_n"]))
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
