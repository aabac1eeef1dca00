r"""The largest weight that a head can give to one tuple if scores are bounded by R.

For scores in [-R, R], exp(score) is at most exp(R) for one of N tuples, and at least exp(-R) for the others. So its
weight is at most

    exp(R) / (exp(R) + (N - 1) exp(-R)) = 1 / (1 + (N - 1) exp(-2 R)),

and a weight of one half requires R >= ln(N - 1)/2. Order k over n tokens has N = n^(k-1) tuples.
"""

from __future__ import annotations

import math

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError

__all__ = ["largest_share", "radius_for_half"]


def largest_share(R: float, tuples: int) -> float:
    """The largest weight that a head can give to one of `tuples` tuples if scores are in [-R, R].

    Example:
        >>> [round(largest_share(R, 17**2), 3) for R in (0.5, 1.0, 2.0, 4.0)]
        [0.009, 0.025, 0.159, 0.912]
    """
    _check(tuples)
    if not R >= 0:
        raise ArgumentError("R", expected="a number >= 0", got=R)
    return 1 / (1 + (tuples - 1) * math.exp(-2 * R))


def radius_for_half(tuples: int) -> float:
    """The smallest R at which a head can give one of `tuples` tuples a weight of one half.

    Example:
        >>> round(radius_for_half(17**2), 3), round(largest_share(radius_for_half(1000), 1000), 12)
        (2.831, 0.5)
    """
    _check(tuples)
    return max(0.0, math.log(tuples - 1) / 2) if tuples > 1 else 0.0


def _check(tuples: int) -> None:
    if not is_whole(tuples, low=1):
        raise ArgumentError("tuples", expected="an integer >= 1", got=tuples)
