r"""The thresholds on dot products that T random sign vectors of a given width can satisfy, and their cost.

The encodings are e_i in {+-1/sqrt(width)}^width, so <e_i, e_j> = (width - 2 Bin(width, 1/2)) / width for a random pair.
The tail of this law is an exact sum of binomial coefficients. There are two reasons why a threshold may be too small.

*Geometry.* Among any T unit vectors of R^width the largest |<e_i, e_j>| is at least the Welch bound of every order k,

    mu^{2k} >= (T / binom(width + k - 1, k) - 1) / (T - 1),

(L. R. Welch, "Lower bounds on the maximum cross correlation of signals"), and an odd width has no orthogonal pair.

*Cost.* A random column conflicts with none of m others with probability about (1 - p)^m, where p is the tail of a pair,
so rejection needs about sum_{m<T} (1 - p)^{-m} candidates.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from separatrix.checks import whole
from separatrix.errors import ArgumentError

MOST_CANDIDATES = 1000
"""The largest number of candidates per column, on average, for which a threshold is accepted."""


def threshold_limit(threshold: float, width: int) -> int:
    """The largest integer dot product of sign vectors that |<e_i, e_j>| <= threshold allows.

    The threshold is read as the decimal that is written, so that 0.3 of 10 is 3 and not slightly less.

    >>> threshold_limit(0.4, 170), threshold_limit(0.3, 10)
    (68, 3)
    """
    if not 0 <= threshold <= 1:
        raise ArgumentError("threshold", expected="a number from 0 to 1", got=threshold)
    return math.floor(Fraction(str(threshold)) * width)


def pair_tail(width: int, limit: int) -> float:
    """The exact probability p that two random sign vectors have a dot product larger than `limit` in magnitude.

    >>> pair_tail(4, 2)  # only +-4, that is equal or opposite: 2 / 2^4
    0.125
    """
    short = (width - limit - 1) // 2
    return 2 * sum(math.comb(width, k) for k in range(short + 1)) / 2**width if limit < width else 0.0


def coherence_floor(T: int, width: int) -> float:
    """A lower bound on the largest |<e_i, e_j>| of any T sign vectors of a width.

    >>> coherence_floor(200, 170) > 0, coherence_floor(4, 4)
    (True, 0.0)
    >>> round(coherence_floor(3, 5), 6)  # an odd width
    0.2
    """
    T, width = whole("T", T, low=1), whole("width", width, low=1)
    if T == 1 or width == 1:
        return float(T > 1)
    floor = 1 / width if width % 2 else 0.0
    order = 1
    while (dimension := math.comb(width + order - 1, order)) < T:
        floor = max(floor, ((T / dimension - 1) / (T - 1)) ** (1 / (2 * order)))
        order += 1
    return floor


def expected_candidates(T: int, width: int, limit: int) -> float:
    """The approximate number of random columns that rejection draws until T are kept: sum_{m<T} (1 - p)^{-m}.

    >>> round(expected_candidates(200, 170, 68), 2), expected_candidates(3, 4, 4)
    (200.0, 3.0)
    """
    p = pair_tail(width, limit)
    if p == 1.0:
        return float(T) if T <= 1 else math.inf
    growth = -math.log1p(-p)
    return T * 1.0 if growth == 0 else math.exp(min(T * growth, 700.0)) * -math.expm1(-T * growth) / math.expm1(growth)


@functools.lru_cache(maxsize=256)
def feasible_limit(T: int, width: int, threshold: float) -> int:
    """The integer limit of a threshold, if rejection can find T columns within it.

    Args:
        T: the number of columns.
        width: the dimension of the columns.
        threshold: the largest |<e_i, e_j>| that is allowed.

    Raises:
        ArgumentError: if no T vectors can satisfy the threshold, or rejection would draw too many candidates.

    Example:
        >>> feasible_limit(200, 170, 0.4)
        68
        >>> feasible_limit(200, 170, 0.02)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: threshold: expected at least 0.0298, the Welch bound for 200 vectors of width \
170, got 0.02.
        >>> feasible_limit(200, 170, 0.1)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: threshold: expected at least 0.1529, below which rejection would draw more \
than 1000 candidates for each of the 200 columns of width 170, got 0.1.
    """
    limit = threshold_limit(threshold, width)
    floor = coherence_floor(T, width)
    if limit < math.ceil(floor * width * (1 - 1e-12)):  # a threshold equal to the bound must pass despite rounding
        raise ArgumentError(
            "threshold",
            expected=f"at least {floor:.4f}, the Welch bound for {T} vectors of width {width}",
            got=threshold,
        )
    if expected_candidates(T, width, limit) > MOST_CANDIDATES * T:
        enough = next(k for k in range(limit, width + 1) if expected_candidates(T, width, k) <= MOST_CANDIDATES * T)
        raise ArgumentError(
            "threshold",
            expected=f"at least {enough / width:.4f}, below which rejection would draw more than {MOST_CANDIDATES} "
            f"candidates for each of the {T} columns of width {width}",
            got=threshold,
        )
    return limit
