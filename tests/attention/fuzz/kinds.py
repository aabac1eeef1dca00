"""The kinds of cases, how often each is drawn, and one case by its number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from separatrix.attention.near_linear import planner, worst_case
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
"""Of each kind: how many of twenty cases are of it, and what draws and checks one."""
IN_THREADS = ("shards", "threads")
"""The kinds whose cases start threads."""

_TURNS = [name for name, (weight, _) in KINDS.items() for _ in range(weight)]
LARGEST_RANK = 2000
"""Larger ones are refused in the fuzz."""


@contextmanager
def quick_plans(with_minimax: bool) -> Iterator[None]:
    """Refuse large ranks, and do not work out what an error's last sentence suggests: both take seconds.

    Polynomials whose errors are relative to exp are tried in every call if `with_minimax`, and not in long ones alone.
    """
    with (
        patch.object(planner, "LARGEST_RANK", LARGEST_RANK),
        patch.object(worst_case, "LARGEST_RANK", LARGEST_RANK),
        patch.object(worst_case, "worst_case_rank", lambda *_: math.inf),
        patch.object(planner, "SMALLEST_SAVING", 0.0 if with_minimax else planner.SMALLEST_SAVING),
    ):
        yield


def kind_of(number: int) -> str:
    """The kind of the case of a number."""
    return _TURNS[number % len(_TURNS)]


def run_case(seed: int, number: int, kind: str | None = None) -> Outcome:
    """The case of a seed and a number; its kind follows from the number unless it is given."""
    kind = kind_of(number) if kind is None else kind
    rng = np.random.default_rng([seed, number])
    with quick_plans(with_minimax=number % 3 == 0):
        return KINDS[kind][1](rng)
