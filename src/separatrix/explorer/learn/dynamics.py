"""The closed-form dynamics for given T, q, d and eta: the exact recursion, its asymptotic law, and the theorem's bound.

The recursion of `population_dynamics` is exact and is run for at most `LONGEST` steps. For more steps the slow curve of
`separatrix.selection.laws` is used, on which alpha equals N x/D, where x is the attention on the subset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from separatrix.errors import ArgumentError
from separatrix.selection.dynamics import population_dynamics
from separatrix.selection.laws import (
    broken_hypotheses,
    loss_allowed,
    plateau_time,
    slow_curve_after,
    slow_curve_alpha,
    slow_curve_C,
    slow_curve_loss,
    slow_curve_time,
    steps_allowed,
    tail_constant,
)

Floats = npt.NDArray[np.float64]

LONGEST = 200_000
"""The largest number of steps of the recursion, which take a tenth of a second."""
_POINTS = 300


@dataclass(frozen=True)
class Descent:
    """A setting: T tokens, subsets of size q, tokens of dimension d, the learning rate eta, and the number of steps."""

    T: int
    q: int
    d: int
    eta: float
    steps: int

    @property
    def beyond(self) -> bool:
        """Whether the last step is computed by the law: the recursion ends earlier, and alpha has risen by that
        step.
        """
        return self.steps > LONGEST and self.eta * self.steps >= self.T

    def broken(self) -> dict[str, str]:
        """The hypotheses of Theorem 3.1 that are violated, by the field that violates them."""
        return broken_hypotheses(self.T, self.q, self.d, self.eta)


@dataclass(frozen=True)
class DynamicsCurve:
    """alpha, C and the loss by step."""

    step: Floats
    alpha: Floats
    C: Floats
    loss: Floats


@dataclass(frozen=True)
class Descended:
    """The recursion at log-spaced steps, the law once alpha has risen, and the theorem's bound on the loss."""

    of: Descent
    run: DynamicsCurve
    law: DynamicsCurve
    bound: tuple[Floats, Floats]

    @property
    def last(self) -> DynamicsCurve:
        """The last point of the drawn curve, from the law if there are more steps than the recursion computes."""
        end = self.law if self.of.beyond else self.run
        return DynamicsCurve(end.step[-1:], end.alpha[-1:], end.C[-1:], end.loss[-1:])


def descent(read: Mapping[str, Any]) -> Descent:
    """The setting with these values of the fields; an `ArgumentError` if q >= T."""
    return _checked(Descent(read["T"], read["q"], read["d"], float(read["eta"]), read["steps"]))


def _checked(settings: Descent) -> Descent:
    if settings.q >= settings.T:
        raise ArgumentError("q", expected=f"less than T = {settings.T}", got=settings.q)
    return settings


@lru_cache(maxsize=128)
def descended(settings: Descent) -> Descended:
    """Run the recursion, and compute the law and the bound.

    >>> found = descended(Descent(T=20, q=2, d=2, eta=0.0125, steps=10**6))
    >>> float(found.run.step[-1]), float(found.law.step[-1])
    (200000.0, 1000000.0)
    >>> near = float(np.interp(1e5, found.law.step, found.law.loss) / np.interp(1e5, found.run.step, found.run.loss))
    >>> round(near, 1)
    1.0
    """
    _checked(settings)
    reached = min(settings.steps, LONGEST)
    run = population_dynamics(settings.T, settings.q, settings.d, settings.eta, reached)
    at = np.unique(np.round(np.geomspace(1, reached, _POINTS)).astype(np.int64))
    return Descended(
        settings,
        DynamicsCurve(at.astype(np.float64), run.alpha[at], run.C[at], run.loss[at]),
        law(settings),
        bound(settings),
    )


def bound(settings: Descent) -> tuple[Floats, Floats]:
    """Numbers of steps, and the bound of Theorem 3.1 on the loss after them: T^2 d/(eta t), without logarithms."""
    step = np.geomspace(1, settings.steps, _POINTS)
    return step, np.array([loss_allowed(settings.T, settings.d, settings.eta, t) for t in step.tolist()])


def law(settings: Descent) -> DynamicsCurve:
    """The slow curve from time tau = T, when alpha has risen, to the last step."""
    n = settings.T / settings.q
    points = []
    for w in np.geomspace(1 - 1 / n, 1e-7, _POINTS).tolist():
        x = 1 - w
        if x <= 1 / n:
            continue
        step = slow_curve_time(x, settings.T, settings.q, settings.d) / settings.eta
        if settings.T / settings.eta <= step < settings.steps:
            alpha, C = slow_curve_alpha(x, settings.T, settings.q), slow_curve_C(x, settings.T, settings.q)
            points.append((step, alpha, C, slow_curve_loss(x, settings.T, settings.q, settings.d)))
    if settings.beyond:
        end = slow_curve_after(settings.steps, settings.T, settings.q, settings.d, settings.eta)
        points.append((float(settings.steps), end.alpha, end.C, end.loss))
    return DynamicsCurve(*np.array(points, np.float64).reshape(-1, 4).T)


def summary(runs: Sequence[Descended]) -> list[tuple[str, list[str]]]:
    """The rows of the table: a name, and a text for each setting."""
    return [
        (r"loss at the start, $d / (2 q)$", [f"{run.of.d / (2 * run.of.q):.4g}" for run in runs]),
        ("loss at the end", [f"{run.last.loss[0]:.3g}" for run in runs]),
        (r"$\alpha$ at the end", [f"{run.last.alpha[0]:.4g}" for run in runs]),
        ("$C$ at the end", [f"{run.last.C[0]:.4g}" for run in runs]),
        ("end of the plateau, about step",
         [_plateau(run.of) for run in runs]),
        (r"steps to the last loss $\epsilon$: by the law of the tail, $(T - 1) / (4 \eta \epsilon)$",
         [f"{tail_constant(run.of.T, run.of.eta) / run.last.loss[0]:.3g}" for run in runs]),
        (r"steps to the last loss $\epsilon$: by Theorem 3.1, up to logarithmic factors",
         [f"{steps_allowed(run.of.T, run.of.d, run.of.eta, run.last.loss[0]):.3g}" for run in runs]),
    ]  # fmt: skip


def _plateau(settings: Descent) -> str:
    """The step at which the subset has half of the attention, if it does not have it from the start."""
    return (
        f"{plateau_time(settings.T, settings.q, settings.d) / settings.eta:,.0f}"
        if 2 * settings.q < settings.T
        else "there is none: q >= T/2"
    )


def python(settings: Sequence[Descent]) -> str:
    """Return a Python program that computes the dynamics of the settings."""
    names = sorted({_name(setting) for setting in settings})
    lines = [f"from separatrix.selection import {', '.join(names)}"]
    for setting in settings:
        # The program uses the law where the page does: if there are too many steps for the recursion.
        end = "end.loss, end.alpha, end.C" if setting.beyond else "end.loss[-1], end.alpha[-1], end.C[-1]"
        lines += ["", f"end = {_call(setting)}", f"print({end})"]
    return "\n".join(lines)


def command(settings: Sequence[Descent]) -> str:
    """Return the command that computes the dynamics of the settings."""
    calls = "; ".join(f"print({_call(setting)}.loss{'' if setting.beyond else '[-1]'})" for setting in settings)
    names = ", ".join(sorted({_name(setting) for setting in settings}))
    return f"python -c 'from separatrix.selection import {names}; {calls}'"


def _name(setting: Descent) -> str:
    """The name of the function whose last value the page shows."""
    return "slow_curve_after" if setting.beyond else "population_dynamics"


def _call(setting: Descent) -> str:
    steps = setting.steps if setting.beyond else min(setting.steps, LONGEST)
    return f"{_name(setting)}(T={setting.T}, q={setting.q}, d={setting.d}, lr={setting.eta!r}, steps={steps})"
