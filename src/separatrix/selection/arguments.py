"""The checks of T, q, d and generators that this package shares.

>>> sizes(10, 3)
(10, 3, 1)
>>> sizes(10, 11)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: q: expected an integer from 1 to 10, got 11.
"""

from __future__ import annotations

import torch

from separatrix.checks import whole


def sizes(T: object, q: object, d: object = 1) -> tuple[int, int, int]:
    """Return T, q and d as integers; an error unless T >= 1, 1 <= q <= T and d >= 1."""
    length = whole("T", T, low=1)
    return length, whole("q", q, low=1, high=length), whole("d", d, low=1)


def seeded(generator: torch.Generator | int) -> torch.Generator:
    """Return the generator itself, or a fresh one with that seed.

    >>> seeded(7).initial_seed()
    7
    """
    if isinstance(generator, torch.Generator):
        return generator
    return torch.Generator().manual_seed(whole("generator", generator, low=0))
