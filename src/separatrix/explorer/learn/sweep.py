"""The loss after the setting's steps along one parameter of the tab Learn, or over two: all by the slow curve.

The slow curve is the law of the dynamics once alpha has risen (`separatrix.selection.laws`). Unlike the recursion it
takes no longer for more steps, so that a curve or a map can be drawn at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from separatrix.explorer.learn.dynamics import Descent
from separatrix.explorer.maps import HEIGHT, MapAxis, Quantity, across_field, along_field, draw_map, some
from separatrix.report.charts import curve
from separatrix.report.theme import BLUE, ORANGE, Drawing, Value, figure
from separatrix.selection.laws import loss_allowed, slow_curve_after

SYMBOLS = {"T": "T", "q": "q", "d": "d", "eta": "η", "steps": "steps"}
ALONG = along_field(
    "Which of the parameters changes from left to right; all others are the setting's.",
    "Theorem 3.1 bounds the loss by them",
    SYMBOLS,
    default="T",
)
ACROSS = across_field(
    "A second parameter makes a map of the curve: the loss over both at once.",
    "beyond the paper, which changes one at a time",
    SYMBOLS,
)
_ENDS = {"T": (3, 1000), "q": (1, 999), "d": (1, 64), "eta": (1e-5, 1.0), "steps": (10, 10**9)}
_POINTS = 60
_BLANK = "Nothing is drawn where q ≥ T, nor before step T/η, where alpha has yet to rise and the law does not hold."


def loss_by_law(one: Descent) -> float | None:
    """The loss on the slow curve at the last step; None where there is none, or alpha has not risen by then.

    >>> loss_by_law(Descent(T=20, q=2, d=2, eta=0.0125, steps=1000)) is None
    True
    """
    if one.q >= one.T or one.eta * one.steps < one.T:
        return None
    return slow_curve_after(one.steps, one.T, one.q, one.d, one.eta).loss


def grid(name: str) -> list[Any]:
    """The values of a parameter from the least that its field takes to the most, evenly spaced in their logarithms.

    >>> grid("d")[:4], grid("d")[-1]
    ([1, 2, 3, 4], 64)
    """
    spaced = np.geomspace(*_ENDS[name], _POINTS)
    return spaced.tolist() if name == "eta" else sorted({round(one) for one in spaced.tolist()})


def along(found: Sequence[Descent], axis: str) -> Drawing:
    """The loss after so many steps along a parameter, a colour a setting, and the bound of Theorem 3.1 (dashed)."""
    drawn = figure(SYMBOLS[axis], "loss", log_x=True, log_y=True, height=HEIGHT)
    drawn.update_layout(legend={"yref": "container", "y": 0.03, "yanchor": "bottom"})
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", axis, "loss", "bound")}
    told = []
    for letter, colour, one in zip("AB", (BLUE, ORANGE), found, strict=False):
        prefix = "" if len(found) == 1 else f"{letter}: "
        x = grid(axis)
        settings = [replace(one, **{axis: value}) for value in x]
        losses = [loss_by_law(each) for each in settings]
        allowed = [loss_allowed(each.T, each.d, each.eta, each.steps) for each in settings]
        drawn.add_trace(curve(f"{prefix}loss by the law", x, losses, colour, mode="lines"))
        drawn.add_trace(curve(f"{prefix}bound of Theorem 3.1", x, allowed, colour, mode="lines", dash="dash"))
        if here := loss_by_law(one):
            marker = {"size": 13, "color": colour, "line": {"color": "white", "width": 2}}
            label = "you are here" if len(found) == 1 else f"{letter} is here"
            drawn.add_scatter(name=label, x=[float(getattr(one, axis))], y=[here], mode="markers", marker=marker)
        columns["setting"] += letter * len(x)
        columns[axis] += x
        columns["loss"] += losses
        columns["bound"] += allowed
        told.append(_range(prefix, losses))
    text = f"{_after(found, axis)} along {SYMBOLS[axis]}: {'; '.join(told)}. {_BLANK}"
    return Drawing(drawn, text, columns)


def plane(of: Descent, along: str, across: str) -> Drawing:
    """The loss after so many steps over two parameters; all others are the setting's."""
    x, y = (MapAxis(name, SYMBOLS[name], some(grid(name)), getattr(of, name), log=True) for name in (along, across))
    z = [[loss_by_law(replace(of, **{along: a, across: b})) for a in x.values] for b in y.values]
    text = (
        f"{_after([of], along, across)} over {x.symbol} and {y.symbol}: "
        f"{_range('', [one for row in z for one in row])}. {_BLANK} The star is your setting."
    )
    return draw_map(x, y, z, Quantity("loss", log=True), text)


def _after(settings: Sequence[Descent], *axes: str) -> str:
    """The loss, and after how many steps it is, where that is one number."""
    steps = {one.steps for one in settings}
    return f"The loss after {steps.pop():,} steps" if len(steps) == 1 and "steps" not in axes else "The loss"


def _range(prefix: str, losses: Sequence[float | None]) -> str:
    known = [one for one in losses if one is not None]
    return f"{prefix}from {min(known):.2g} to {max(known):.2g}" if known else f"{prefix}the law holds nowhere on it"
