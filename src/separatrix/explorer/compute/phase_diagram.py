"""A map of the cheaper method over the entry bound B and the length n, at the d, order and tolerance of the fields."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.attention.near_linear.cost import AFFORDABLE, Shape, exact_cost, polynomial_cost
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, highest_degree, keeps_tolerance, threshold
from separatrix.explorer.compute.plan_table import PlanSettings
from separatrix.hardness.exponents import border
from separatrix.report.charts import curve
from separatrix.report.tables import columns_from
from separatrix.report.theme import GREY, SCALE, THEME, Drawing, Value

LENGTHS = range(4, 41)
"""The values of log2 n."""
HEIGHT = 560
"""The height of the figure in pixels."""
STEPS = 60
"""The number of values of B."""
_SYMBOLS = {(0, 0): "star", (1, 0): "triangle-right", (0, -1): "triangle-down", (1, -1): "triangle-right"}
_RED = "#ff4d4d"
# The bar is below the diagram, because beside it the bar would take half of the width of a phone.
_COLOUR_BAR = {
    "title": {"text": "log<sub>10</sub> flops", "side": "top"},
    "orientation": "h",
    "thickness": 12,
    "y": -0.34,
    "yanchor": "top",
}


@dataclass(frozen=True)
class Diagram:
    """One panel, for an order, a dimension and a tolerance.

    Attributes:
        bounds: The values of B, from left to right.
        flops: log10 of the flops of the cheaper method, a row for each length; None where neither method satisfies the
            tolerance.
        borders: For each length the largest B at which near-linear attention is cheaper; 0 where it never is.
    """

    bounds: tuple[float, ...]
    flops: tuple[tuple[float | None, ...], ...]
    borders: tuple[float, ...]


@lru_cache(maxsize=64)
def bounds_of_degrees(order: int, d: int, tolerance: float) -> tuple[float, ...]:
    """For each degree that the planner tries in d dimensions, the largest B at which it keeps the tolerance."""
    most = LARGEST_RADIUS ** (1 / order)

    def largest(degree: int) -> float:
        return border(lambda B: keeps_tolerance(degree, B**order, tolerance / B ** (order - 1)), 0.0, most, steps=14)

    return tuple(largest(degree) for degree in range(highest_degree(d) + 1))


def cheaper_flops(n: int, order: int, d: int, degrees: int) -> list[float]:
    """The flops of near-linear attention at length n by degree, from 0 as long as the planner chooses it."""
    shape = Shape(1, n, (n,) * (order - 1), d, d)
    exact = exact_cost(shape, False).time
    costs = [polynomial_cost(shape, math.comb(d + degree, degree), True) for degree in range(degrees)]
    return [cost.flops for cost in takewhile(lambda cost: cost.time < exact, costs)]


@lru_cache(maxsize=16)
def diagram(order: int, d: int, tolerance: float) -> Diagram:
    """Compute a panel, for B from near 0 to beyond (ln n)^(1/k) at the largest n."""
    most = 1.25 * threshold(2 ** LENGTHS[-1], order)
    bounds = tuple(most * step / STEPS for step in range(1, STEPS + 1))
    reached = bounds_of_degrees(order, d, tolerance)
    needed = [next((degree for degree, largest in enumerate(reached) if bound <= largest), None) for bound in bounds]
    rows = []
    for log2_n in LENGTHS:
        n = 2**log2_n
        exact = exact_cost(Shape(1, n, (n,) * (order - 1), d, d), False).flops
        otherwise = math.log10(exact) if exact <= AFFORDABLE else None
        flops = [math.log10(count) for count in cheaper_flops(n, order, d, len(reached))]
        rows.append(tuple(otherwise if g is None or g >= len(flops) else flops[g] for g in needed))
    return Diagram(bounds, tuple(rows), tuple(largest_bound(2**log2_n, order, d, tolerance) for log2_n in LENGTHS))


def largest_bound(n: int, order: int, d: int, tolerance: float) -> float:
    """The largest B at which near-linear attention is cheaper at length n; 0 where it is cheaper at none."""
    reached = bounds_of_degrees(order, d, tolerance)
    cheaper = len(cheaper_flops(n, order, d, len(reached)))
    return max(reached[:cheaper], default=0.0)


def phase(settings: Sequence[PlanSettings]) -> Drawing:
    """Draw a panel for each order, dimension and tolerance of the settings, and a mark for each setting."""
    kinds = list(dict.fromkeys((sizes.order, sizes.d, sizes.tolerance) for sizes in settings))
    titles = [f"k = {order}, d = {d}<br>ε = {tolerance:g}" for order, d, tolerance in kinds]
    drawn = make_subplots(rows=1, cols=len(kinds), shared_yaxes=True, subplot_titles=titles)
    drawn.update_layout(
        template=THEME,
        height=HEIGHT,
        margin={"t": 60, "r": 20},
        coloraxis={"colorscale": SCALE, "colorbar": _COLOUR_BAR},
        legend={"yref": "container", "y": 0.02, "yanchor": "bottom"},
    )
    table: list[tuple[Value, ...]] = []
    for column, kind in enumerate(kinds, start=1):
        panel = diagram(*kind)
        for trace in _panel(panel, kind[0], column == 1):
            drawn.add_trace(trace, row=1, col=column)
        drawn.update_xaxes(title_text="B", range=[0, panel.bounds[-1]], row=1, col=column)
        for log2_n, row in zip(LENGTHS, panel.flops, strict=True):
            table += [(*kind, 2**log2_n, bound, flops) for bound, flops in zip(panel.bounds, row, strict=True)]
    drawn.update_yaxes(range=[LENGTHS[0], LENGTHS[-1]])
    drawn.update_yaxes(title_text="log<sub>2</sub> n", col=1)
    sentences = []
    for letter, sizes in zip("AB", settings, strict=False):
        kind = sizes.order, sizes.d, sizes.tolerance
        name = "Your setting" if len(settings) == 1 else f"Setting {letter}"
        sentences.append(_mark(drawn, sizes, diagram(*kind), kinds.index(kind) + 1, name))
    sentences.append(
        "Colours show the flops of the cheaper method, blank where neither is in reach. To the left of the red line it "
        r"is near-linear attention. The dotted line is $B = (\ln n)^{1/k}$, the order of growth that the theorems "
        "name for the border."
    )
    names = ("order", "d", "tolerance", "n", "B", "log10_flops")
    return Drawing(drawn, " ".join(sentences), columns_from(names, table))


def _panel(panel: Diagram, order: int, named: bool) -> list[go.Scatter | go.Heatmap]:
    lengths = list(LENGTHS)
    border = [(bound, log2_n) for bound, log2_n in zip(panel.borders, lengths, strict=True) if bound]
    theorem = [threshold(2**log2_n, order) for log2_n in lengths]
    colours = go.Heatmap(
        x=panel.bounds,
        y=lengths,
        z=panel.flops,
        coloraxis="coloraxis",
        hoverongaps=False,
        hovertemplate="n = 2^%{y}<br>B = %{x:.2f}<br>10^%{z:.1f} flops<extra></extra>",
    )
    red = curve("exact attention is cheaper to the right", [bound for bound, _ in border], [y for _, y in border], _RED,
                mode="lines", showlegend=named, legendgroup="border")  # fmt: skip
    dotted = curve("(ln n)<sup>1/k</sup>", theorem, lengths, GREY, mode="lines", dash="dot", showlegend=named,
                   legendgroup="theorem")  # fmt: skip
    return [colours, red, dotted]


def _mark(drawn: go.Figure, sizes: PlanSettings, panel: Diagram, column: int, name: str) -> str:
    """Mark a setting by a star, or by a triangle at the edge; return its position as a sentence."""
    x, y = sizes.bound, math.log2(sizes.n)
    beyond = int(x > panel.bounds[-1]), -int(y < LENGTHS[0])
    mark = go.Scatter(
        x=[min(x, panel.bounds[-1])],
        y=[max(y, LENGTHS[0])],
        # The letters of two settings fit beside their stars; the name of a single one is in the legend.
        mode="markers+text" if name.startswith("Setting ") else "markers",
        text=[f"<b>{name.removeprefix('Setting ')}</b>"],
        textposition="middle left" if x > panel.bounds[-1] / 2 else "middle right",
        textfont={"color": "white", "size": 14, "shadow": "0 0 3px black, 0 0 3px black"},
        marker={"symbol": _SYMBOLS[beyond], "size": 17, "color": "white", "line": {"color": "black", "width": 1.5}},
        name=name,
        showlegend=not name.startswith("Setting "),
        cliponaxis=False,
        hovertemplate=f"{name}: n = {sizes.n:,}, B = {sizes.bound:g}, k = {sizes.order}<extra></extra>",
    )
    drawn.add_trace(mark, row=1, col=column)
    edge = ", beyond the edge of the diagram," if any(beyond) else ""
    most = panel.bounds[-1]
    at = largest_bound(sizes.n, sizes.order, sizes.d, sizes.tolerance)
    where = f"near-linear attention is cheaper up to B = {at:.2g}" if at else "exact attention is cheaper at every B"
    if at >= most:
        where = "near-linear attention is cheaper at every B of the diagram"
    return f"{name}{edge} has B = {x:g}; at its length {where}."
