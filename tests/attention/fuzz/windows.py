"""Exact attention of orders up to 9 with windows, over sets far longer than the windows, with gradients."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from tests.attention.fuzz.backward import TUPLES, check_backward
from tests.attention.fuzz.calls import Call, check_call, draw_lengths, draw_tolerance
from tests.attention.fuzz.manners import MANNERS, TYPES, Shapes
from tests.attention.fuzz.outcomes import Outcome

HIGHEST_ORDER = 9
LONGEST = 512
"""The number of tokens that a long set has beyond those that a query attends."""


def draw_windowed(rng: Generator) -> Call:
    """A call whose queries attend at most `TUPLES` tuples each; with long sets there are up to 2^72 tuples in all."""
    order = int(rng.integers(2, HIGHEST_ORDER + 1))
    attended = [max(count, 1) for count in draw_lengths(rng, order - 1, TUPLES)]
    long = rng.random() < 0.1
    beyond = [int(rng.integers(LONGEST if long else 9)) for _ in attended]
    lengths = tuple(count + more for count, more in zip(attended, beyond, strict=True))
    queries = int(rng.integers(1, 5))
    is_causal = rng.random() < 0.5
    offset = int(rng.integers(-2, max(lengths) + 1)) or 1
    if is_causal and rng.random() < 0.3:
        lengths, queries, offset = (max(attended),) * (order - 1), max(attended), 0
    windows = [
        None if length == count and rng.random() < 0.3 else count
        for length, count in zip(lengths, attended, strict=True)
    ]
    manner = str(rng.choice(list(MANNERS)))
    dtype = TYPES[rng.choice(4, p=[0.5, 0.3, 0.1, 0.1])]
    shapes = Shapes((), (), queries, lengths, int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    tokens = MANNERS[manner](rng, shapes).as_type(dtype)
    options = {
        "is_causal": is_causal,
        "query_offset": offset,
        "windows": windows,
        "key_masks": None,
        "scale": (None, 1.0, -0.5)[rng.integers(3)],
        "enable_gqa": False,
    }
    method = str(rng.choice(["auto", "exact"]))
    return Call(*tokens, options, draw_tolerance(rng, tokens[2], dtype), method, manner, kind="windows")


def fuzz_windows(rng: Generator) -> Outcome:
    """Draw a call with windows, and check its outputs or all of its gradients."""
    call = draw_windowed(rng)
    if rng.random() < 0.5:
        return check_call(call)
    return check_backward(replace(call, kind="gradient with windows"))
