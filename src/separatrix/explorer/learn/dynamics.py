"""The closed-form dynamics at the reader's T, q, d and eta: the recursion, the law that goes on, the bound.

The recursion of `population_dynamics` is exact and is run for at most `LONGEST` steps. Beyond them the slow curve of
`separatrix.selection.laws` goes on, on which alpha has settled at N x/D, where x is the attention on the subset.
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
"""Steps of the recursion: a tenth of a second."""
_POINTS = 300


@dataclass(frozen=True)
class Descent:
    """One setting: T tokens, subsets of q, tokens of d dimensions, the rate eta, and how many steps to look at."""

    T: int
    q: int
    d: int
    eta: float
    steps: int

    @property
    def beyond(self) -> bool:
        """Whether the last step is one that the law gives: it is not run, and alpha has risen by then."""
        return self.steps > LONGEST and self.eta * self.steps >= self.T

    def broken(self) -> dict[str, str]:
        """Give the hypotheses of Theorem 3.1 that do not hold, by the field that breaks each."""
        return broken_hypotheses(self.T, self.q, self.d, self.eta)


@dataclass(frozen=True)
class DynamicsCurve:
    """alpha, C and the loss after so many steps."""

    step: Floats
    alpha: Floats
    C: Floats
    loss: Floats


@dataclass(frozen=True)
class Descended:
    """The recursion at log-spaced steps, the law beyond the rise of alpha, and the theorem's bound on the loss."""

    of: Descent
    run: DynamicsCurve
    law: DynamicsCurve
    bound: tuple[Floats, Floats]

    @property
    def last(self) -> DynamicsCurve:
        """The end of what is drawn: the law's if it goes further than the recursion."""
        end = self.law if self.of.beyond else self.run
        return DynamicsCurve(end.step[-1:], end.alpha[-1:], end.C[-1:], end.loss[-1:])


def descent(read: Mapping[str, Any]) -> Descent:
    """The setting of the fields' values; an `ArgumentError` if its subsets are no smaller than the sequence."""
    return _checked(Descent(read["T"], read["q"], read["d"], float(read["eta"]), read["steps"]))


def _checked(one: Descent) -> Descent:
    if one.q >= one.T:
        raise ArgumentError("q", expected=f"less than T = {one.T}", got=one.q)
    return one


@lru_cache(maxsize=128)
def descended(one: Descent) -> Descended:
    """Run the recursion and lay the law beside it.

    >>> found = descended(Descent(T=20, q=2, d=2, eta=0.0125, steps=10**6))
    >>> float(found.run.step[-1]), float(found.law.step[-1])
    (200000.0, 1000000.0)
    >>> near = float(np.interp(1e5, found.law.step, found.law.loss) / np.interp(1e5, found.run.step, found.run.loss))
    >>> round(near, 1)
    1.0
    """
    _checked(one)
    reached = min(one.steps, LONGEST)
    run = population_dynamics(one.T, one.q, one.d, one.eta, reached)
    at = np.unique(np.round(np.geomspace(1, reached, _POINTS)).astype(np.int64))
    return Descended(
        one,
        DynamicsCurve(at.astype(np.float64), run.alpha[at], run.C[at], run.loss[at]),
        law(one),
        bound(one),
    )


def bound(one: Descent) -> tuple[Floats, Floats]:
    """Steps, and the loss that Theorem 3.1 allows after them: T^2 d/(eta t), logarithms left out."""
    step = np.geomspace(1, one.steps, _POINTS)
    return step, np.array([loss_allowed(one.T, one.d, one.eta, t) for t in step.tolist()])


def law(one: Descent) -> DynamicsCurve:
    """The slow curve from tau = T on, where alpha has risen, to the last step."""
    n = one.T / one.q
    points = []
    for w in np.geomspace(1 - 1 / n, 1e-7, _POINTS).tolist():
        x = 1 - w
        if x <= 1 / n:
            continue
        step = slow_curve_time(x, one.T, one.q, one.d) / one.eta
        if one.T / one.eta <= step < one.steps:
            alpha, C = slow_curve_alpha(x, one.T, one.q), slow_curve_C(x, one.T, one.q)
            points.append((step, alpha, C, slow_curve_loss(x, one.T, one.q, one.d)))
    if one.beyond:
        end = slow_curve_after(one.steps, one.T, one.q, one.d, one.eta)
        points.append((float(one.steps), end.alpha, end.C, end.loss))
    return DynamicsCurve(*np.array(points, np.float64).reshape(-1, 4).T)


def summary(found: Sequence[Descended]) -> list[tuple[str, list[str]]]:
    """The rows of the page's table: a name, and what each setting has there."""
    return [
        ("loss at the start, d/(2q)", [f"{one.of.d / (2 * one.of.q):.4g}" for one in found]),
        ("loss at the end", [f"{one.last.loss[0]:.3g}" for one in found]),
        ("alpha at the end", [f"{one.last.alpha[0]:.4g}" for one in found]),
        ("C at the end", [f"{one.last.C[0]:.4g}" for one in found]),
        ("the plateau is left at step, about",
         [_plateau(one.of) for one in found]),
        ("steps to the last loss: by the tail (T - 1)/(4 eta epsilon)",
         [f"{tail_constant(one.of.T, one.of.eta) / one.last.loss[0]:.3g}" for one in found]),
        ("steps to the last loss: allowed by Theorem 3.1, up to logarithms",
         [f"{steps_allowed(one.of.T, one.of.d, one.of.eta, one.last.loss[0]):.3g}" for one in found]),
    ]  # fmt: skip


def _plateau(one: Descent) -> str:
    """When the subset holds half the attention; it may hold as much from the start."""
    return f"{plateau_time(one.T, one.q, one.d) / one.eta:,.0f}" if 2 * one.q < one.T else "there is none: q >= T/2"


def python(settings: Sequence[Descent]) -> str:
    """Write the dynamics that the page shows as a program."""
    names = sorted({_name(one) for one in settings})
    lines = [f"from separatrix.selection import {', '.join(names)}"]
    for one in settings:
        # What is too long to be run is given by the law, in the program as on the page.
        end = "end.loss, end.alpha, end.C" if one.beyond else "end.loss[-1], end.alpha[-1], end.C[-1]"
        lines += ["", f"end = {_call(one)}", f"print({end})"]
    return "\n".join(lines)


def command(settings: Sequence[Descent]) -> str:
    """Write the dynamics that the page shows as a command."""
    calls = "; ".join(f"print({_call(one)}.loss{'' if one.beyond else '[-1]'})" for one in settings)
    names = ", ".join(sorted({_name(one) for one in settings}))
    return f"python -c 'from separatrix.selection import {names}; {calls}'"


def _name(one: Descent) -> str:
    """The function whose last value the page shows."""
    return "slow_curve_after" if one.beyond else "population_dynamics"


def _call(one: Descent) -> str:
    steps = one.steps if one.beyond else min(one.steps, LONGEST)
    return f"{_name(one)}(T={one.T}, q={one.q}, d={one.d}, lr={one.eta!r}, steps={steps})"
