"""The figures of the notebooks, drawn from the numbers that the notebooks print and from further points:
`notebooks/figures`.

``python -m docs._ext.notebook_figures`` redraws them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

import separatrix as sx
from docs._ext.notebook_pages import NOTEBOOKS
from separatrix.report.charts import curve
from separatrix.report.sketch import labelled
from separatrix.report.theme import COLOURS, GREY, figure
from separatrix.selection import fcn_infimum, population_dynamics
from separatrix.selection.laws import loss_allowed
from separatrix.separation import SelfAttention, log_width

FIGURES = NOTEBOOKS / "figures"


def ranks() -> go.Figure:
    """The rank that keeps a tolerance of 1e-3 at a million tokens of dimension 8, against the entry bound."""
    drawn = figure("entry bound B", "rank", log_y=True)
    bounds = [0.1 * step for step in range(2, 26)]
    for order, colour in zip((2, 3, 4, 5), COLOURS, strict=False):
        plans = [sx.plan_shapes(10**6, 8, bound, order, tolerance=1e-3) for bound in bounds]
        points = [(bound, plan.rank) for bound, plan in zip(bounds, plans, strict=True) if plan.rank]
        drawn.add_trace(curve(f"order {order}", [x for x, _ in points], [y for _, y in points], colour))
    return drawn


def success() -> go.Figure:
    """The probability of success against the length, at a fixed width and at a growing one."""
    drawn = figure("tokens n", "probability of success", log_x=True)
    drawn.update_yaxes(range=[0, 1.02])
    widths: Mapping[str, Callable[[int], int]] = {
        "d = 12": lambda exponent: 12,
        "d = 2 + sqrt(n)": lambda exponent: 10 ** (exponent // 2) + 2,
    }
    for (name, width), colour in zip(widths.items(), COLOURS, strict=False):
        exponents = range(2, 41, 2)
        settings = [
            SelfAttention(n=10**k, d=width(k), m=log_width(10**k, 0.01), a0=0.01, a1=1.2, b=0.2, c=0.8)
            for k in exponents
        ]
        y = [setting.success_probability().success for setting in settings]
        drawn.add_trace(curve(name, [10.0**k for k in exponents], y, colour))
    return drawn


def loss() -> go.Figure:
    """The population loss of the notebook's run, the theorem's bound, and the infimum of nets that are too narrow."""
    T, q, d, lr, steps = 100, 3, 5, 0.005, 10**6
    run = population_dynamics(T=T, q=q, d=d, lr=lr, steps=steps)
    at = sorted({round(10 ** (k / 20)) for k in range(121)})
    drawn = figure("steps", "loss", log_x=True, log_y=True)
    drawn.add_trace(curve("the transformer", at, [float(run.loss[step]) for step in at], COLOURS[0], mode="lines"))
    late = [step for step in at if step >= 10**4]
    allowed = [loss_allowed(T, d, lr, step) for step in late]
    drawn.add_trace(curve("allowed by Theorem 3.1", late, allowed, COLOURS[1], mode="lines", dash="dash"))
    floor = fcn_infimum(T * d - 1, T=T, q=q, d=d) / 2
    name = f"nets of {T * d - 1} neurons, at best"
    drawn.add_trace(curve(name, [at[0], at[-1]], [floor, floor], GREY, mode="lines", dash="dash"))
    return drawn


DRAWN: Mapping[str, Callable[[], Any]] = {
    "the_border_of_near_linear": ranks,
    "softmax_against_linear": success,
    "learning_to_select": loss,
}
"""The figure of each notebook."""


def draw_all() -> None:
    """Write every figure."""
    FIGURES.mkdir(exist_ok=True)
    for name, make in DRAWN.items():
        (FIGURES / f"{name}.svg").write_text(f"{labelled(make().to_dict())}\n")


if __name__ == "__main__":
    draw_all()
