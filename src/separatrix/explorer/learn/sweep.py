"""The final loss against one or two parameters of the tab Learn, computed by the slow curve.

The slow curve is the law of the dynamics once alpha has risen (`separatrix.selection.laws`). Its cost does not depend
on the number of steps, so that curves and maps are fast to compute.
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
    "The parameter on the horizontal axis; the other parameters have the values of the setting.",
    "Theorem 3.1 bounds the loss by them",
    SYMBOLS,
    default="T",
)
ACROSS = across_field(
    "The parameter on the vertical axis: with one, the loss is drawn as a map of both parameters.",
    "beyond the paper, which varies one parameter at a time",
    SYMBOLS,
)
_ENDS = {"T": (3, 1000), "q": (1, 999), "d": (1, 64), "eta": (1e-5, 1.0), "steps": (10, 10**9)}
_POINTS = 60
_BLANK = r"The law holds for $q < T$ and from step $T / \eta$ on, once $\alpha$ has risen; nothing is drawn elsewhere."


def loss_by_law(descent: Descent) -> float | None:
    """The loss on the slow curve at the last step; None if q >= T or if alpha has not risen by then.

    >>> loss_by_law(Descent(T=20, q=2, d=2, eta=0.0125, steps=1000)) is None
    True
    """
    if descent.q >= descent.T or descent.eta * descent.steps < descent.T:
        return None
    return slow_curve_after(descent.steps, descent.T, descent.q, descent.d, descent.eta).loss


def grid(name: str) -> list[Any]:
    """Log-spaced values of a parameter between the limits of its field.

    >>> grid("d")[:4], grid("d")[-1]
    ([1, 2, 3, 4], 64)
    """
    spaced = np.geomspace(*_ENDS[name], _POINTS)
    return spaced.tolist() if name == "eta" else sorted({round(value) for value in spaced.tolist()})


def along(settings: Sequence[Descent], axis: str) -> Drawing:
    """Draw the final loss against a parameter, with one colour per setting, and the bound of Theorem 3.1 (dashed)."""
    drawn = figure(SYMBOLS[axis], "loss", log_x=True, log_y=True, height=HEIGHT)
    drawn.update_layout(legend={"yref": "container", "y": 0.03, "yanchor": "bottom"})
    columns: dict[str, list[Value]] = {name: [] for name in ("setting", axis, "loss", "bound")}
    ranges = []
    for letter, colour, setting in zip("AB", (BLUE, ORANGE), settings, strict=False):
        prefix = "" if len(settings) == 1 else f"{letter}: "
        x = grid(axis)
        moved_settings = [replace(setting, **{axis: value}) for value in x]
        losses = [loss_by_law(moved) for moved in moved_settings]
        allowed = [loss_allowed(moved.T, moved.d, moved.eta, moved.steps) for moved in moved_settings]
        drawn.add_trace(curve(f"{prefix}loss by the law", x, losses, colour, mode="lines"))
        drawn.add_trace(curve(f"{prefix}bound of Theorem 3.1", x, allowed, colour, mode="lines", dash="dash"))
        if here := loss_by_law(setting):
            marker = {"size": 13, "color": colour, "line": {"color": "white", "width": 2}}
            label = "you are here" if len(settings) == 1 else f"{letter} is here"
            drawn.add_scatter(name=label, x=[float(getattr(setting, axis))], y=[here], mode="markers", marker=marker)
        columns["setting"] += letter * len(x)
        columns[axis] += x
        columns["loss"] += losses
        columns["bound"] += allowed
        ranges.append(_range(prefix, losses))
    text = f"{_after(settings, axis)} along {SYMBOLS[axis]}: {'; '.join(ranges)}. {_BLANK}"
    return Drawing(drawn, text, columns)


def plane(of: Descent, along: str, across: str) -> Drawing:
    """Draw the final loss over two parameters; the others have the values of the setting."""
    x, y = (MapAxis(name, SYMBOLS[name], some(grid(name)), getattr(of, name), log=True) for name in (along, across))
    z = [[loss_by_law(replace(of, **{along: a, across: b})) for a in x.values] for b in y.values]
    text = (
        f"{_after([of], along, across)} over {x.symbol} and {y.symbol}: "
        f"{_range('', [loss for row in z for loss in row])}. {_BLANK} The star is your setting."
    )
    return draw_map(x, y, z, Quantity("loss", log=True), text)


def _after(settings: Sequence[Descent], *axes: str) -> str:
    """The beginning of the caption: the loss, and the number of steps if it is the same everywhere."""
    steps = {setting.steps for setting in settings}
    return f"The loss after {steps.pop():,} steps" if len(steps) == 1 and "steps" not in axes else "The loss"


def _range(prefix: str, losses: Sequence[float | None]) -> str:
    known = [loss for loss in losses if loss is not None]
    return f"{prefix}from {min(known):.2g} to {max(known):.2g}" if known else f"{prefix}the law does not apply"
