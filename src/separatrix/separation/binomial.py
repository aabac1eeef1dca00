r"""Tails of the binomial distribution with p = 1/2: exact integers for N <= 2048, extended precision for larger N.

For N <= 2048 the number of sign vectors with at least k signs +1 is an integer from a table. For larger N a tail is its
first term times a sum of ratios,

    P[X >= k] = C(N, k) 2^-N (1 + (N-k)/(k+1) + (N-k)(N-k-1)/((k+1)(k+2)) + ...),     k > N/2,

cut off when the geometric bound on the remaining terms is below 2^-220. The number of terms is O(sqrt N) near the mean,
which is the worst case, and O(1) far from it. A tail that includes the mean is one minus the opposite tail.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import comb, isqrt
from typing import Any

from separatrix.errors import SeparatrixError
from separatrix.separation.extended import EXTENDED, binomial_point

_TABLE = 2048
_MOST_TERMS = 20_000_000


def total(N: int) -> int:
    """The total of which `tails` and `exactly` return parts: 2^N if they count sign vectors (N <= 2048), otherwise
    1."""
    return 1 << N if N <= _TABLE else 1


class Tails:
    """The tails for a large N: `tails[k]` computes P[X >= k] when it is read."""

    def __init__(self, N: int) -> None:
        self.N = N

    def __getitem__(self, k: int) -> Any:
        return _tail(self.N, k) if 2 * k > self.N else 1 - _tail(self.N, self.N - k + 1)


@lru_cache(maxsize=512)
def tails(N: int) -> tuple[int, ...] | Tails:
    """A sequence whose entry k is the share of the sign vectors of length N that have at least k signs +1.

    It has entries for 0 <= k <= N + 2, as shares of `total(N)`: integers for N <= 2048, and real numbers of
    `extended.EXTENDED` for larger N.

    >>> tails(4), total(4)
    ((16, 15, 11, 5, 1, 0, 0), 16)
    >>> print(EXTENDED.nstr(tails(10**6)[510_000], 12))
    2.77218164385e-89
    """
    if N > _TABLE:
        return Tails(N)
    return (*reversed(tuple(accumulate(comb(N, k) for k in range(N + 1)))), 0, 0)


def exactly(N: int, k: int) -> Any:
    """The share, out of `total(N)`, of the sign vectors of length N that have exactly k signs +1.

    >>> exactly(4, 2)
    6
    """
    return comb(N, k) if N <= _TABLE else binomial_point(N, k)


@lru_cache(maxsize=4096)
def _tail(N: int, k: int) -> Any:
    """The probability P[X >= k] for k > N/2."""
    if k > N:
        return EXTENDED.zero
    if min(isqrt(100 * N), 100 * N // (2 * k - N)) > _MOST_TERMS:
        raise SeparatrixError(f"The binomial tail P[X >= {k}] of N = {N} needs more than {_MOST_TERMS} terms.")
    unit = term = series = 1 << 320
    j = k
    # The ratios decrease, so the remaining terms sum to at most term * ratio / (1 - ratio).
    while j < N and term * (N - j) > (unit >> 220) * (2 * j + 1 - N):
        term = term * (N - j) // (j + 1)
        series += term
        j += 1
    return binomial_point(N, k) * series / unit
