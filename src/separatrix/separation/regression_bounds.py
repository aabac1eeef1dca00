r"""Certified bounds for softmax regression, where the data are random as well as the signs.

In Definition 3.8, take (Ax)_i uniform. In units of log n the linear weights are u_i = 1 + 0.4 U_i, and in units of n
the softmax weights are n^{0.4 U_i}; w_i stands for either. On D0 a network fires on y when sum_i w_i (y_i - tau) > 0.
Given that k of the n signs are +1, this is a sum of independent terms of two laws, (1 - tau) w and -(1 + tau) w.
Rounding each term up to a lattice of spacing h moves the sum by less than n h, so two probabilities of the lattice sum
bracket the true one; they come from its characteristic function, at the few frequencies where its n-th power is not
negligible.

The five brackets follow from these tables without approximation:
* Given y, the data of D0 and D1 are independent. Given y, both events on D0 are increasing in the weights of the signs
  +1 and decreasing in the others, so they are positively associated (Harris): the probability of their union is at
  least the larger of the two probabilities and at most the probability for independent events.
* The m sign vectors share the data, and (1 - p)^m is convex in p: with p the probability given the data, E (1 - p)^m
  is at least (1 - E p)^m (Jensen) and at most the chord from p = 0 to the largest p over all data (Hoeffding).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LARGEST_LATTICE = 4096
"""The lattice is not used for larger n: the bound over all data is then tiny unless tau is tiny too."""

_CELLS = 200
"""The range of a term has 200 sqrt(n) cells of the lattice: n h is then about 1/50 of the sum's standard deviation."""

_SLACK = 1e-9
"""A bound on the rounding errors of float64 and on the parts outside the window and beyond the frequencies used."""

Array = NDArray[np.float64]
Bounds = tuple[float, float]
"""A lower and an upper bound."""


@dataclass(frozen=True)
class SingleVector:
    """Bounds on probabilities of events about one sign vector, in expectation over the data.

    Attributes:
        lin1: that F_lin fires on D1.
        exp0: that F_exp fires on D0.
        lin0: that F_lin fires on D0.
        bad: that any of these three fires.
        bad_if_minus: that any of these three fires, given that the sign at D1's special index is -1.
        worst: for each of these names, an upper bound on the probability given any data of Definition 3.8.
    """

    lin1: Bounds
    exp0: Bounds
    lin0: Bounds
    bad: Bounds
    bad_if_minus: Bounds
    worst: dict[str, float]


def silent(p: Bounds, worst: float, m: int) -> Bounds:
    """Bounds on E (1 - p(data))^m, from the bounds `p` on E p(data) and from p(data) <= worst.

    >>> silent((0.1, 0.1), 0.1, 3), silent((0.0, 0.0), 0.5, 9)
    ((0.7290000000000001, 0.7290000000000001), (1.0, 1.0))
    """
    low, high = p
    chord = 1 - min(low / worst, 1.0) * (1 - (1 - worst) ** m) if worst else 1.0
    return (1 - high) ** m, chord


def worst_data(n: float, tau: float, top: float, special: float | None) -> float:
    """An upper bound on the probability that sum f_i y_i > tau, for all weights in [1, top].

    By Hoeffding's inequality it is at most exp(-tau^2 / (2 sum f_i^2)), and by symmetry at most 1/2. With S the sum of
    the weights in [1, top], their squares sum to at most (1 + top) S - N top, because (w - 1)(top - w) >= 0; the bound
    on sum f_i^2 is then largest at one S, which is found by calculus and restricted to its range.

    Args:
        n: the number of weights.
        tau: the threshold.
        top: the largest weight, in units of the smallest.
        special: the value of one further weight, which takes the place of one of the n; None if there is none.
    """
    if tau >= 1:
        return 0.0
    if tau <= 0:
        return 1.0
    N, s = (n, 0.0) if special is None else (n - 1, special)
    A, B = s * s - N * top, 1 + top
    S = min(max(s - 2 * A / B, N), top * N)
    squares = (A + B * S) / (s + S) ** 2
    return min(0.5, math.exp(-tau * tau / (2 * squares)))


@lru_cache(maxsize=1024)
def single_vector(n: int, tau: float) -> SingleVector:
    """The bounds for one sign vector, for n tokens and the threshold tau."""
    size = float(min(n, 10**300))
    top = size**0.4
    worst = {
        "lin1": worst_data(size, tau, 1.4, 4.0),
        "exp0": worst_data(size, tau, top, None),
        "lin0": worst_data(size, tau, 1.4, None),
    }
    worst["bad"] = min(1.0, sum(worst.values()))
    worst["bad_if_minus"] = min(1.0, 2 * worst["bad"])
    if n > LARGEST_LATTICE or worst["bad"] < _SLACK or not -1 < tau < 1:
        fires = 1.0 if tau <= -1 else 0.0
        return _single({name: (fires, max(fires, worst[name])) for name in worst}, worst)
    linear, softmax = _Laws(n, tau, None), _Laws(n, tau, math.log(top))
    far = {"lin1": linear.chernoff(n - 1, 4.0), "exp0": softmax.chernoff(n), "lin0": linear.chernoff(n)}
    if 2 * sum(far.values()) < _SLACK:
        far["bad"], far["bad_if_minus"] = sum(far.values()), 2 * sum(far.values())
        return _single({name: (0.0, min(far[name], worst[name])) for name in worst}, worst)
    linear_sums, softmax_sums = _Lattice(linear), _Lattice(softmax)
    lin0, exp0 = linear_sums.fires(n, 0.0), softmax_sums.fires(n, 0.0)
    on_d0 = np.maximum(lin0[0], exp0[0]), 1 - (1 - lin0[1]) * (1 - exp0[1])
    of_n, of_others = _binomial(n), _binomial(n - 1)
    lin1, bad = [], []
    for s in (1, -1):
        firing = linear_sums.fires(n - 1, -4.0 * (s - tau))
        shift = slice(1, None) if s > 0 else slice(None, -1)
        lin1.append([float(of_others @ p) for p in firing])
        bad.append([float(of_others @ (1 - (1 - p0[shift]) * (1 - p1))) for p0, p1 in zip(on_d0, firing, strict=True)])
    shares = (np.mean(lin1, axis=0), [of_n @ p for p in exp0], [of_n @ p for p in lin0], np.mean(bad, axis=0), bad[1])
    bounds = zip(worst, shares, strict=True)
    return _single({name: _slack(float(low), float(high), worst[name]) for name, (low, high) in bounds}, worst)


def _single(bounds: dict[str, Bounds], worst: dict[str, float]) -> SingleVector:
    return SingleVector(
        bounds["lin1"], bounds["exp0"], bounds["lin0"], bounds["bad"], bounds["bad_if_minus"], worst=worst
    )


def _slack(low: float, high: float, worst: float) -> Bounds:
    return max(0.0, low - _SLACK), min(high + _SLACK, worst)


@lru_cache(maxsize=2)
def _binomial(n: int) -> Array:
    return np.array([math.comb(n, k) / (1 << n) for k in range(n + 1)])


class _Laws:
    """The laws of (1 - tau) w and -(1 + tau) w, rounded up to a lattice that is fine enough for sums of n of them.

    The weight w is 1 + 0.4 U, or exp(log_top U) if `log_top` is not None, with U uniform in [0, 1].
    """

    def __init__(self, n: int, tau: float, log_top: float | None) -> None:
        self.n, self.tau = n, tau
        top = 1.4 if log_top is None else math.exp(log_top)
        self.cells = math.ceil(_CELLS * math.sqrt(n))
        self.h = (1 + abs(tau)) * (top - 1) / self.cells
        self.plus = _Law.rounded_up(1 - tau, top, log_top, self.h)
        self.minus = _Law.rounded_up(-1 - tau, top, log_top, self.h)

    def chernoff(self, n: int, special: float = 0.0) -> float:
        """An upper bound on P[sum of n terms, plus special (y - tau), > 0]: the least E exp(s sum) over a few s."""
        plus, minus = (self.h * (law.first + np.arange(len(law.probabilities))) for law in (self.plus, self.minus))
        w, p = plus / (1 - self.tau), self.plus.probabilities
        logs = [0.0]
        for s in self.tau * (p @ w) / (p @ w**2) * np.geomspace(0.5, 2, 33):
            term = (p @ np.exp(s * plus) + self.minus.probabilities @ np.exp(s * minus)) / 2
            alone = (math.exp(s * special * (1 - self.tau)) + math.exp(-s * special * (1 + self.tau))) / 2
            logs.append(n * math.log(term) + math.log(alone))
        return math.exp(min(logs))


class _Lattice:
    """The Fourier transforms of two laws, from which the laws of sums of up to n terms follow."""

    def __init__(self, laws: _Laws) -> None:
        self.h, self.plus, self.minus, n = laws.h, laws.plus, laws.minus, laws.n
        # The window around the mean is 8 sqrt(n) times as wide as the range of a term; the sum is outside it with
        # probability at most 2 exp(-32) (Hoeffding). Its length M is a power of two, for which the FFT is fast.
        self.M = M = 1 << math.ceil(8 * math.sqrt(n) * (laws.cells + 2)).bit_length()
        # At frequency j the transforms are at most steepest M / (2 j), so beyond J their n-th power is below exp(-40).
        steepest = max(self.plus.probabilities.max(), self.minus.probabilities.max())
        J = min(M // 2, math.ceil(M / 2 * steepest * math.exp(40 / (n - 1))))
        self.frequencies = np.arange(J + 1)
        self.turn = 2j * math.pi / M
        # A sum of consecutive powers of r = exp(2 pi i j / M) is the first minus the one after the last, divided by 1 -
        # r.
        self.less = -np.expm1(self.turn * self.frequencies[1:])
        # Each frequency except 0 and M / 2 counts twice, for itself and for its mirror image.
        self.times = np.where(self.frequencies % (M // 2) == 0, 1.0, 2.0)
        self.logs = [_log(np.fft.rfft(law.probabilities, M)[: J + 1]) for law in (self.plus, self.minus)]
        self.means = [float(law.probabilities @ np.arange(len(law.probabilities))) for law in (self.plus, self.minus)]

    def fires(self, n: int, level: float) -> tuple[Array, Array]:
        """Bounds on P[sum of n terms > level | k signs are +1], for k = 0, ..., n.

        The bounds are 0 and 1 for k further than 3.5 sqrt(n) from n / 2; the probability of such k is below
        2 exp(-24.5) (Hoeffding).
        """
        M = self.M
        upper, lower = math.floor(level / self.h) + 1, math.ceil(level / self.h) + n
        bounds = np.stack([np.zeros(n + 1), np.ones(n + 1)])
        away = 3.5 * math.sqrt(n)
        total = np.empty(len(self.frequencies), dtype=complex)
        for k in range(max(0, math.ceil(n / 2 - away)), min(n, math.floor(n / 2 + away)) + 1):
            # Positions are relative to the least value that the lattice sum can have.
            least = k * self.plus.first + (n - k) * self.minus.first
            end = round(k * self.means[0] + (n - k) * self.means[1]) + M // 2
            law = np.exp(k * self.logs[0] + (n - k) * self.logs[1])
            last = self._powers(end)
            for row, start in ((0, lower - least), (1, upper - least)):
                begin = min(max(start, end - M), end)
                # The sums of exp(2 pi i j v / M) over v = begin, ..., end - 1.
                total[0] = end - begin
                np.divide(self._powers(begin) - last, self.less, out=total[1:])
                bounds[row, k] = self.times @ (law * total).real / M
        return np.clip(bounds[0], 0, 1), np.clip(bounds[1], 0, 1)

    def _powers(self, v: int) -> NDArray[np.complex128]:
        """The powers exp(2 pi i j v / M) of the roots of unity, for the frequencies j other than 0."""
        return np.exp(self.turn * (self.frequencies[1:] * (v % self.M) % self.M))


def _log(transform: NDArray[np.complex128]) -> NDArray[np.complex128]:
    with np.errstate(divide="ignore"):
        logs = np.log(transform)
    return np.where(np.isfinite(logs), logs, -1e6)


@dataclass(frozen=True)
class _Law:
    """A law on the integers first, first + 1, ..., whose total variation is at most twice its largest probability."""

    first: int
    probabilities: Array

    @classmethod
    def rounded_up(cls, factor: float, top: float, log_top: float | None, h: float) -> _Law:
        """The law of factor * w, rounded up to a multiple of h, in units of h."""
        low, high = sorted((factor / h, factor * top / h))
        first = math.ceil(low)
        edges = np.arange(first - 1, math.ceil(high) + 1) * h / factor
        share = np.clip((edges - 1) / (top - 1) if log_top is None else np.log(np.maximum(edges, 1)) / log_top, 0, 1)
        return cls(first, np.abs(np.diff(share)))
