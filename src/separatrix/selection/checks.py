"""What the arguments T, q, d and width must be, said once for the whole room.

>>> whole("q", 3, low=1, high=5)
3
>>> whole("q", 9, low=1, high=5)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: q: expected an integer from 1 to 5, got 9.
"""

from __future__ import annotations

import operator

import torch

from separatrix.errors import ArgumentError

__all__ = ["positive", "seeded", "sizes", "whole"]


def whole(argument: str, value: object, *, low: int, high: int | None = None) -> int:
    """`value` as an int in [low, high], or the error that says so."""
    expected = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(argument, expected=expected, got=value) from None
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        raise ArgumentError(argument, expected=expected, got=value)
    return number


def sizes(T: object, q: object, d: object = 1) -> tuple[int, int, int]:
    """(T, q, d) with T >= 1 tokens, a subset size 1 <= q <= T and d >= 1, or the error.

    >>> sizes(10, 3)
    (10, 3, 1)
    """
    length = whole("T", T, low=1)
    return length, whole("q", q, low=1, high=length), whole("d", d, low=1)


def positive(argument: str, value: float) -> float:
    """`value` as a finite float above zero, or the error."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ArgumentError(argument, expected="a finite number > 0", got=value)
    return number


def seeded(generator: torch.Generator | int) -> torch.Generator:
    """The generator itself, or a fresh one with that seed.

    >>> seeded(7).initial_seed()
    7
    """
    if isinstance(generator, torch.Generator):
        return generator
    return torch.Generator().manual_seed(whole("generator", generator, low=0))
