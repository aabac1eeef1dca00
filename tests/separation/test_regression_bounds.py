"""The bounds for softmax regression, against an exact formula, integrals and their limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from separatrix.separation import SoftmaxRegression, log_width
from separatrix.separation import regression_bounds as bounds


def uniform_tail(coefficients: list[Fraction], level: Fraction) -> Fraction:
    """P[sum c_i U_i > level] for independent uniform U_i in [0, 1] and nonzero c_i.

    Reflecting U_i makes all c_i positive; then the volume of a cube cut by a plane is an alternating sum over its
    corners.
    """
    level -= sum(c for c in coefficients if c < 0)
    positive = [abs(c) for c in coefficients]
    r = len(positive)
    below = Fraction(0)
    for corner in itertools.product((0, 1), repeat=r):
        room = level - sum(c for c, on in zip(positive, corner, strict=True) if on)
        if room > 0:
            below += (-1) ** sum(corner) * room**r
    return 1 - below / (math.factorial(r) * math.prod(positive))


@pytest.mark.parametrize("tau", ["0.25", "0.1", "-0.2", "0.6"])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_linear_weights_against_the_volume_of_a_cut_cube(n: int, tau: str) -> None:
    t, slope = Fraction(tau), Fraction(2, 5)
    for level in (Fraction(0), -4 * (1 - t), 4 * (1 + t)):
        low, high = bounds._Lattice(bounds._Laws(n, float(t), None)).fires(n, float(level))
        for k in range(n + 1):
            terms = [1 - t] * k + [-1 - t] * (n - k)
            expected = float(uniform_tail([c * slope for c in terms], level - sum(terms)))
            assert low[k] - bounds._SLACK <= expected <= high[k] + bounds._SLACK
            assert high[k] - low[k] < 0.05


def test_softmax_weights_against_an_integral() -> None:
    """n = 2 and one sign each: (1 - tau) e^{L U} > (1 + tau) e^{L V}, so U - V > log((1 + tau) / (1 - tau)) / L."""
    log_top, tau = 1.5, 0.25
    gap = math.log((1 + tau) / (1 - tau)) / log_top
    expected = (1 - gap) ** 2 / 2
    low, high = bounds._Lattice(bounds._Laws(2, tau, log_top)).fires(2, 0.0)
    assert low[1] <= expected <= high[1]
    assert high[1] - low[1] < 0.02
    assert (low[0], high[2]) == pytest.approx((0, 1), abs=bounds._SLACK)


@pytest.mark.parametrize("special", [None, 4.0])
@pytest.mark.parametrize("top", [1.4, 6.0])
def test_no_data_beat_the_worst(special: float | None, top: float) -> None:
    """Corners of the cube of weights, random points and equal weights: their bound is below the worst case."""
    rng = np.random.default_rng(0)
    n, tau = 12, 0.4
    worst = bounds.worst_data(n, tau, top, special)
    corners = [np.where(np.arange(n) < k, top, 1.0) for k in range(n + 1)]
    reached = 0.0
    for w in [*corners, *rng.uniform(1, top, (200, n))]:
        if special is not None:
            w[0] = special
        f = w / w.sum()
        reached = max(reached, min(0.5, math.exp(-(tau**2) / (2 * (f @ f)))))
        assert reached <= worst + 1e-12
    assert reached > 0.8 * worst


def test_jensen_and_the_chord_hold_any_law_of_p() -> None:
    rng = np.random.default_rng(1)
    for m in (1, 3, 20):
        p = rng.beta(0.5, 4, 1000) * 0.7
        low, high = bounds.silent((p.mean(), p.mean()), 0.7, m)
        assert low - 1e-14 <= ((1 - p) ** m).mean() <= high + 1e-14
    assert bounds.silent((0.2, 0.3), 1.0, 5) == ((1 - 0.3) ** 5, 1 - 0.2)


def test_exp_fires_exactly() -> None:
    for n, m in ((4, 1), (100, 4), (10**100, 230)):
        bracket = SoftmaxRegression(n, m).success_probability()
        assert bracket.low.exp_fires_on_d1 == bracket.high.exp_fires_on_d1 == bracket.exp_fires_on_d1 == 1 - 0.5**m


def test_a_tau_near_one_is_not_claimed_to_be_exact() -> None:
    bracket = SoftmaxRegression(100, 3, tau="0.9999").success_probability()
    assert (bracket.low.exp_fires_on_d1, bracket.high.exp_fires_on_d1) == (0.0, 0.875)
    assert bracket.low.success == 0 < bracket.high.success
    never = SoftmaxRegression(100, 3, tau=1).success_probability()
    assert (never.exp_fires_on_d1, never.lin_silent_on_d0, never.success) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("n", [100, 300, 1000, 2000])
def test_the_brackets_of_figure_three_are_narrow(n: int) -> None:
    bracket = SoftmaxRegression(n, log_width(n)).success_probability()
    assert 0 <= bracket.high.success - bracket.low.success < {100: 0.03, 300: 2e-3, 1000: 1e-6, 2000: 1e-6}[n]
    assert bracket.low.success <= bracket.success <= bracket.high.success


def test_success_is_certain_in_the_limit() -> None:
    bracket = SoftmaxRegression(10**100, log_width(10**100)).success_probability()
    assert bracket.low.success == bracket.high.success == 1 - 0.5**230


def test_wide_networks_fire_at_least_as_often() -> None:
    brackets = [SoftmaxRegression(100, m).success_probability() for m in (1, 5, 25)]
    for name in ("lin_silent_on_d1", "exp_silent_on_d0", "lin_silent_on_d0"):
        for end in ("low", "high"):
            assert [getattr(getattr(f, end), name) for f in brackets] == sorted(
                (getattr(getattr(f, end), name) for f in brackets), reverse=True
            )


def test_a_negative_tau_fires_always() -> None:
    bracket = SoftmaxRegression(50, 2, tau=-2, strict=False).success_probability()
    assert bracket.high.lin_silent_on_d1 == bracket.high.exp_silent_on_d0 == bracket.high.success == 0.0


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("kind", ["linear", "softmax"])
def test_chernoff_is_above_the_lattice(n: int, kind: str) -> None:
    """For a deviation z, the bound is at most about e^{-z^2/2} / (e^{-z^2/2} / (2.5 z)) = 2.5 z times the lattice's."""
    laws = bounds._Laws(n, 0.25, None if kind == "linear" else 0.4 * math.log(n))
    weights = bounds._binomial(n)
    low, high = (float(weights @ p) for p in bounds._Lattice(laws).fires(n, 0.0))
    assert low <= high < laws.chernoff(n) < 10 * high
    weights = bounds._binomial(n - 1)
    low, high = (
        sum(float(weights @ bounds._Lattice(laws).fires(n - 1, -4 * (s - 0.25))[end]) / 2 for s in (1, -1))
        for end in (0, 1)
    )
    assert low <= high < laws.chernoff(n - 1, 4.0) < 10 * high
