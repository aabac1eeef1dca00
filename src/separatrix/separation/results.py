"""The results of a setting: five probabilities, or bounds on them, or five estimates with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from separatrix.checks import whole

PARTS = ("exp_fires_on_d1", "lin_silent_on_d1", "exp_silent_on_d0", "lin_silent_on_d0", "success")
"""The four events of the paper's E_success (Section 7), and their conjunction."""


@dataclass(frozen=True)
class Probabilities:
    """The probabilities of F_exp(D1) > 0, F_lin(D1) = 0, F_exp(D0) = 0, F_lin(D0) = 0, and of all four at once."""

    exp_fires_on_d1: float
    lin_silent_on_d1: float
    exp_silent_on_d0: float
    lin_silent_on_d0: float
    success: float


@dataclass(frozen=True)
class Bracket:
    """Certified bounds, low <= probability <= high, and their midpoints by the names of `Probabilities`.

    >>> Bracket(Probabilities(0.5, 0.25, 1.0, 1.0, 0.0), Probabilities(0.5, 0.75, 1.0, 1.0, 0.5)).success
    0.25
    """

    low: Probabilities
    high: Probabilities

    @property
    def exp_fires_on_d1(self) -> float:
        return (self.low.exp_fires_on_d1 + self.high.exp_fires_on_d1) / 2

    @property
    def lin_silent_on_d1(self) -> float:
        return (self.low.lin_silent_on_d1 + self.high.lin_silent_on_d1) / 2

    @property
    def exp_silent_on_d0(self) -> float:
        return (self.low.exp_silent_on_d0 + self.high.exp_silent_on_d0) / 2

    @property
    def lin_silent_on_d0(self) -> float:
        return (self.low.lin_silent_on_d0 + self.high.lin_silent_on_d0) / 2

    @property
    def success(self) -> float:
        return (self.low.success + self.high.success) / 2


@dataclass(frozen=True)
class Estimate:
    """An estimate of a probability: how many of `trials` trials were hits, and the Wilson interval [low, high]."""

    hits: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The estimate hits / trials."""
        return self.hits / self.trials

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Simulation:
    """Estimates of the `Probabilities`, under the same names, all from one set of trials."""

    exp_fires_on_d1: Estimate
    lin_silent_on_d1: Estimate
    exp_silent_on_d0: Estimate
    lin_silent_on_d0: Estimate
    success: Estimate


def wilson(hits: int, trials: int, z: float = 1.959963984540054) -> Estimate:
    """The estimate hits / trials with its score interval (E. B. Wilson, 1927).

    Args:
        hits: how many trials were hits.
        trials: the number of trials.
        z: the half width of the interval in standard deviations; the default gives a 95 % interval.

    Example:
        >>> estimate = wilson(0, 100)
        >>> estimate.value, estimate.low, round(estimate.high, 4)
        (0.0, 0.0, 0.037)
    """
    trials = whole("trials", trials, low=1)
    hits = whole("hits", hits, low=0, high=trials)
    p, weight = hits / trials, z * z / trials
    centre = (p + weight / 2) / (1 + weight)
    radius = z * math.sqrt(p * (1 - p) / trials + weight / (4 * trials)) / (1 + weight)
    # If there are no hits, or only hits, an end of the interval is exactly 0 or 1; the formula would be affected by
    # rounding.
    return Estimate(hits, trials, centre - radius if hits else 0.0, centre + radius if hits < trials else 1.0)
