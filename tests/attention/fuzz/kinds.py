"""The kinds of cases, how often each is drawn, and the case of a given number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from separatrix.attention import certified
from separatrix.attention.near_linear import cost, planner, worst_case
from separatrix.attention.near_linear import forecast as forecasting
from separatrix.attention.near_linear.analysis import Analysis
from separatrix.attention.near_linear.approximation.remainder import Polynomial, chebyshev
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.run import PolynomialRun
from tests.attention.fuzz.backward import fuzz_gradients, fuzz_incoming
from tests.attention.fuzz.calls import fuzz_call
from tests.attention.fuzz.climbs import climb
from tests.attention.fuzz.layers import fuzz_layer, fuzz_value_ranges
from tests.attention.fuzz.outcomes import Outcome
from tests.attention.fuzz.shards import fuzz_shards
from tests.attention.fuzz.states import fuzz_state
from tests.attention.fuzz.threads import fuzz_threads
from tests.attention.fuzz.weight_sums import fuzz_weights
from tests.attention.fuzz.windows import fuzz_windows

KINDS: dict[str, tuple[int, Callable[[Generator], Outcome]]] = {
    "call": (7, fuzz_call),
    "climb": (1, climb),
    "gradient": (1, fuzz_gradients),
    "incoming gradient": (1, fuzz_incoming),
    "windows": (2, fuzz_windows),
    "weights": (2, fuzz_weights),
    "state": (2, fuzz_state),
    "threads": (1, fuzz_threads),
    "layer": (1, fuzz_layer),
    "value ranges": (1, fuzz_value_ranges),
    "shards": (1, fuzz_shards),
}
"""For each kind: how many of twenty cases are of it, and the function that draws and checks one."""
IN_THREADS = ("shards", "threads")
"""The kinds whose cases start threads."""

_TURNS = [name for name, (weight, _) in KINDS.items() for _ in range(weight)]
LARGEST_RANK = 2000
"""Larger ranks are refused in the fuzz."""


Replacement = tuple[Any, str, Any]
_RELATIVE: tuple[Replacement, ...] = (
    (planner, "SMALLEST_SAVING", 0.0),
    (planner, "total_degree_recipe", lambda *_: None),
)
_choices = planner.column_choices
_SQUARES: tuple[Replacement, ...] = (
    (planner, "column_choices", lambda analysis: _choices(analysis)[1:] or _choices(analysis)),
    (planner, "squares_may_pay", lambda *_: True),
)
_MISSED: tuple[Replacement, ...] = ((planner, "MARGIN", 100.0),)


def _chebyshev_alone(forecast: Forecast, degree: int, *search: Any) -> Iterator[Polynomial]:
    """Chebyshev's polynomials of a degree, without Taylor's, which the planner would use for most short calls."""
    for moment in planner.moments_in_reach(forecast, degree, *search):
        yield chebyshev(degree, moment, forecast.analysis.radius)


_CHEBYSHEV: tuple[Replacement, ...] = ((planner, "polynomials", _chebyshev_alone),)
SEARCHES = ((), _RELATIVE, _SQUARES, _MISSED, _CHEBYSHEV, _RELATIVE, _SQUARES, _MISSED)
"""Parts of the search for a polynomial that are replaced in turn: none, those that lead to relative errors, those that
lead to squared deviations of the values, those that lead to a missed tolerance, and those that lead to Chebyshev's
polynomials. Unpatched, the planner uses almost only Taylor polynomials for such short calls.
"""


@contextmanager
def quick_plans(number: int) -> Iterator[list[str]]:
    """Refuse large ranks, and skip the suggestions at the end of errors: both take seconds.

    Yields:
        The kinds of polynomials with which the calls of the case are computed.
    """
    used: list[str] = []
    missed: list[bool] = []
    takes_squares, near_linear = certified._takes_squares, certified._near_linear

    def note_miss(analysis: Analysis, recipe: Recipe) -> bool:
        missed.append(takes_squares(analysis, recipe))
        return missed[-1]

    def note_recipe(run: PolynomialRun, *rest: Any) -> certified.Certified:
        used.append(_name(run, any(missed)))
        return near_linear(run, *rest)

    with ExitStack() as patches:
        for module, name, value in (
            *((module, "LARGEST_RANK", LARGEST_RANK) for module in (planner, forecasting, cost)),
            (worst_case, "LARGEST_RANK", LARGEST_RANK),
            (worst_case, "worst_case_rank", lambda *_: math.inf),
            (certified, "_takes_squares", note_miss),
            (certified, "_near_linear", note_recipe),
            *SEARCHES[number % len(SEARCHES)],
        ):
            patches.enter_context(patch.object(module, name, value))
        yield used


def _name(run: PolynomialRun, missed: bool) -> str:
    """The kind of the polynomial of a run, or of the squares in its certificate, as text."""
    polynomial = run.recipe.polynomial
    if run.recipe.squares:
        return "squares after a miss" if missed else "squares planned"
    if polynomial is None:
        return "greedy"
    if polynomial.relative is not None:
        return "relative minimax"
    return "Taylor" if polynomial.factor is None else "Chebyshev"


def kind_of(number: int) -> str:
    """The kind of the case with this number."""
    return _TURNS[number % len(_TURNS)]


def run_case(seed: int, number: int, kind: str | None = None) -> Outcome:
    """The case of a seed and a number; the number determines its kind unless it is given."""
    kind = kind_of(number) if kind is None else kind
    rng = np.random.default_rng([seed, number])
    with quick_plans(number) as used:
        outcome = KINDS[kind][1](rng)
    return replace(outcome, recipes=tuple(used))
