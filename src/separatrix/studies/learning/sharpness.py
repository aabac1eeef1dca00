r"""The largest share of a head's attention that one tuple can have if scores are bounded by R.

Scores in [-R, R] give a tuple among N at most exp(R), and every other at least exp(-R). So its share is at most

    exp(R) / (exp(R) + (N - 1) exp(-R)) = 1 / (1 + (N - 1) exp(-2 R)),

and it takes R >= ln(N - 1)/2 to give one tuple half of the attention: order k over n tokens has N = n^(k-1).
"""

from __future__ import annotations

import math

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError

__all__ = ["largest_share", "radius_for_half"]


def largest_share(R: float, tuples: int) -> float:
    """The largest share of a head's attention that one of `tuples` tuples can have when scores are in [-R, R].

    Example:
        >>> [round(largest_share(R, 17**2), 3) for R in (0.5, 1.0, 2.0, 4.0)]
        [0.009, 0.025, 0.159, 0.912]
    """
    _check(tuples)
    if not R >= 0:
        raise ArgumentError("R", expected="a number >= 0", got=R)
    return 1 / (1 + (tuples - 1) * math.exp(-2 * R))


def radius_for_half(tuples: int) -> float:
    """The least R at which one of `tuples` tuples can have half of a head's attention.

    Example:
        >>> round(radius_for_half(17**2), 3), round(largest_share(radius_for_half(1000), 1000), 12)
        (2.831, 0.5)
    """
    _check(tuples)
    return max(0.0, math.log(tuples - 1) / 2) if tuples > 1 else 0.0


def _check(tuples: int) -> None:
    if not is_whole(tuples, low=1):
        raise ArgumentError("tuples", expected="an integer >= 1", got=tuples)
