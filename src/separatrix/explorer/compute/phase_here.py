"""The phase diagram of Theorems 1.3 and 1.4 with the reader's numbers in it: the report's own figure, and a star."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.kronecker.theorem_1_4 import worst_case
from separatrix.claims.ledger import Found
from separatrix.explorer.compute.plan_table import PlanSettings
from separatrix.report.figures import draw
from separatrix.report.theme import Drawing

RATIOS = [round(0.04 * step, 2) for step in range(1, 46)]
LENGTHS = range(6, 41, 2)
_SYMBOLS = {(0, 0): "star", (1, 0): "triangle-right", (0, -1): "triangle-down", (1, -1): "triangle-right"}


@lru_cache(maxsize=8)
def grid(order: int) -> tuple[Found, ...]:
    """The cells of one order's panel; computed once, in a few tenths of a second."""
    parameters = [{"order": order, "log2_n": log2_n, "ratios": RATIOS} for log2_n in LENGTHS]
    return tuple(Found(one, 0, worst_case(**one, seed=0)) for one in parameters)


def place(sizes: PlanSettings) -> tuple[float, float]:
    """(B / (ln n)^(1/k), log2 n).

    >>> [round(x, 2) for x in place(PlanSettings(2**20, 8, 1.2, 3, 1e-3))]
    [0.5, 20.0]
    """
    return sizes.bound / math.log(sizes.n) ** (1 / sizes.order), math.log2(sizes.n)


def phase(settings: Sequence[PlanSettings]) -> Drawing:
    """The panels of the settings' orders, and a mark for each: a star, or at the edge a triangle that points out."""
    orders = sorted({one.order for one in settings})
    base = draw("threshold_phase_diagram", [cell for order in orders for cell in grid(order)])
    said = []
    for letter, sizes in zip("AB", settings, strict=False):
        x, y = place(sizes)
        beyond = int(x > RATIOS[-1]), -int(y < LENGTHS[0])
        name = "you are here" if len(settings) == 1 else f"setting {letter} is here"
        mark = go.Scatter(
            x=[min(x, RATIOS[-1])],
            y=[max(y, LENGTHS[0])],
            mode="markers+text",
            text=[f"<b>{name if len(settings) == 1 else letter}</b>"],
            textposition="middle left" if x > 0.9 else "middle right",
            textfont={"color": "white", "size": 14, "shadow": "0 0 3px black, 0 0 3px black"},
            marker={
                "symbol": _SYMBOLS[beyond], "size": 17, "color": "white", "line": {"color": "black", "width": 1.5},
            },
            name=name,
            showlegend=False,
            cliponaxis=False,
            hovertemplate=f"{name}: n = {sizes.n:,}, B = {sizes.bound:g}, k = {sizes.order}<extra></extra>",
        )  # fmt: skip
        base.figure.add_trace(mark, row=1, col=orders.index(sizes.order) + 1)
        out = ", beyond the edge of the diagram," if any(beyond) else ""
        said.append(f"{name[0].upper()}{name[1:]}{out} at B = {x:.3g} (ln n)^(1/{sizes.order}) and n = 2^{y:.3g}.")
    slice_ = "The diagram is drawn at d = ln n and tolerance 1/n, as the theorems are; the plan above has your own."
    return Drawing(base.figure, " ".join([*said, base.text, slice_]), base.columns)
