r"""Which dot-product thresholds T random sign vectors of a given width can meet, and at what cost.

The encodings are e_i in {+-1/sqrt(width)}^width, so <e_i, e_j> = (width - 2 Bin(width, 1/2)) / width for a random pair:
its tail is an exact sum of binomials. Two things stand in the way of a small threshold.

*Geometry.* Among any T unit vectors of R^width the largest |<e_i, e_j>| is at least the Welch bound of every order k,

    mu^{2k} >= (T / binom(width + k - 1, k) - 1) / (T - 1),

(L. R. Welch, "Lower bounds on the maximum cross correlation of signals"), and an odd width has no orthogonal pair.

*Patience.* With m columns in place a fresh one conflicts with none of them with probability about (1 - p)^m, p the
pair's tail, so rejection needs about sum_{m<T} (1 - p)^{-m} candidates.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from separatrix.checks import whole
from separatrix.errors import ArgumentError

__all__ = ["PATIENCE", "coherence_floor", "expected_candidates", "met", "pair_tail", "threshold_limit"]

PATIENCE = 1000
"""The most candidates a wanted column may cost on average before a threshold is refused."""


def threshold_limit(threshold: float, width: int) -> int:
    """The largest integer dot product of sign vectors that |<e_i, e_j>| <= threshold allows.

    The threshold is read as the decimal it is written as, so that 0.3 of 10 is 3 and not a rounding error below it.

    >>> threshold_limit(0.4, 170), threshold_limit(0.3, 10)
    (68, 3)
    """
    if not 0 <= threshold <= 1:
        raise ArgumentError("threshold", expected="a number from 0 to 1", got=threshold)
    return math.floor(Fraction(str(threshold)) * width)


def pair_tail(width: int, limit: int) -> float:
    """p, the probability that two random sign vectors have |dot product| > limit, exactly.

    >>> pair_tail(4, 2)  # only +-4, that is equal or opposite: 2 / 2^4
    0.125
    """
    short = (width - limit - 1) // 2
    return 2 * sum(math.comb(width, k) for k in range(short + 1)) / 2**width if limit < width else 0.0


def coherence_floor(T: int, width: int) -> float:
    """No T sign vectors of that width all have pairwise |<e_i, e_j>| below this.

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
    """About how many random columns rejection reads for T that are kept: sum_{m<T} (1 - p)^{-m}.

    >>> round(expected_candidates(200, 170, 68), 2), expected_candidates(3, 4, 4)
    (200.0, 3.0)
    """
    p = pair_tail(width, limit)
    if p == 1.0:
        return float(T) if T <= 1 else math.inf
    growth = -math.log1p(-p)
    return T * 1.0 if growth == 0 else math.exp(min(T * growth, 700.0)) * -math.expm1(-T * growth) / math.expm1(growth)


@functools.lru_cache(maxsize=256)
def met(T: int, width: int, threshold: float) -> int:
    """The integer limit of a threshold that rejection can meet for T columns, or the error that says why it cannot.

    >>> met(200, 170, 0.4)
    68
    >>> met(200, 170, 0.02)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: threshold: expected at least 0.0298, the Welch bound for 200 vectors of width \
170, got 0.02.
    >>> met(200, 170, 0.1)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: threshold: expected at least 0.1529, below which rejection would read more than \
1000 candidates for each of the 200 columns of width 170, got 0.1.
    """
    limit = threshold_limit(threshold, width)
    floor = coherence_floor(T, width)
    if limit < math.ceil(floor * width * (1 - 1e-12)):  # the bound's own rounding must not refuse what meets it
        raise ArgumentError(
            "threshold",
            expected=f"at least {floor:.4f}, the Welch bound for {T} vectors of width {width}",
            got=threshold,
        )
    if expected_candidates(T, width, limit) > PATIENCE * T:
        enough = next(k for k in range(limit, width + 1) if expected_candidates(T, width, k) <= PATIENCE * T)
        raise ArgumentError(
            "threshold",
            expected=f"at least {enough / width:.4f}, below which rejection would read more than {PATIENCE} candidates "
            f"for each of the {T} columns of width {width}",
            got=threshold,
        )
    return limit
