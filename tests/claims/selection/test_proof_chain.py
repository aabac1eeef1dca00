"""The chain of the proofs of Theorems D.4 and E.6: how quotients depend on constants, and times of gradient descent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from separatrix.claims.selection.proof_chain import Chain, Floats, steps
from separatrix.selection.dynamics import time_to_loss

SMALL = Chain(T=9, q=2, d=1, epsilon=6.3e-3, eta=1 / 20, slow=1 / 8, fast=1 / 8, kappa=1.0)


def test_the_induction_needs_kappa_and_the_rate() -> None:
    """(S2) is proportional to eta and fails at a large enough learning rate; the induction depends on kappa."""
    found = steps(SMALL)
    assert all(quotient <= 1 for quotient in found.values())
    faster = steps(replace(SMALL, eta=256 * SMALL.eta))
    assert faster["(S2), slow"] > 1
    assert faster["lower end"] > 1
    assert faster["induction below alpha*, slow"] > 1
    doubled = steps(replace(SMALL, kappa=2 * SMALL.kappa))
    ratio = doubled["induction above alpha*, slow"] / found["induction above alpha*, slow"]
    assert 1.7 < ratio < 2.1


def test_the_time_is_that_of_descent() -> None:
    rate = 1 / 500
    counted = time_to_loss(SMALL.T, SMALL.q, SMALL.d, rate, SMALL.epsilon) * rate
    assert SMALL.time() == pytest.approx(counted, rel=1e-3)
    assert counted < SMALL.total()


def test_literal_steps_stay_below_the_proved_bounds() -> None:
    """At sizes from the smallest to T = 10^7 the quotients of actual steps are at most the bounds for all sizes.

    The mean weight changes as with equal encodings, by twice the step of C, or as with three encodings.
    """
    bounds = {step: 1.5 * attained for step, attained in (("(S2)", 0.4), ("induction above alpha*", 0.35157))}
    largest = dict.fromkeys(bounds, 0.0)
    for T, q, d in ((9, 2, 1), (41, 10, 3), (1000, 2, 1), (10**5, 2, 4), (10**7, 50, 2)):
        for width in (T * d // 100 + 1, T * d // 2 + 1, T * d):
            kappa = width / (T * d)
            eta = min(width**2 / (40 * d**2 * T), q / 2)
            chain = Chain(T, q, d, 1e-3 / q, eta, d / width, 2 * d / width, kappa)
            for move in (chain.moved, twice_as_far(chain), mean_moved(chain)):
                for step, quotient in induction_quotients(chain, move).items():
                    largest[step] = max(largest[step], quotient)
    assert all(largest[step] <= bound for step, bound in bounds.items())
    assert largest["(S2)"] > 0.05
    assert largest["induction above alpha*"] > 0.01


def test_the_log_odds_of_the_mean_weight_move_by_at_most_twice_the_step() -> None:
    """If all overlaps are near -1, steps nearly reach the factor 1 + c; none exceeds it, and C never decreases u."""
    for T, q in ((9, 2), (41, 10), (1000, 2)):
        chain = Chain(T, q, 1, 1e-3, 1.0, 1.0, 1.0, 1.0)
        late = (np.linspace(1.02 * q / T, 0.999, 200) / q)[:, None]
        for gain, overlaps in itertools.product((1e-3, 1 / 40), (MIXED, (-0.95, -0.9))):
            after = mean_moved(chain, overlaps)(late, np.full_like(late, gain))
            moved = np.log(after * (1 - q * late) / (late * (1 - q * after)))
            assert moved.min() > 0
            assert gain < moved.max() <= 1.95 * gain
            assert overlaps is MIXED or moved.max() > 1.9 * gain


MIXED = (-0.95, 0.0, 0.95)
Move = Callable[[Floats, Floats], Floats]


def twice_as_far(chain: Chain) -> Move:
    """Change s by twice the step of C, the most that overlaps below 1 allow."""
    return lambda s, gain: chain.moved(s, 2 * gain)


def mean_moved(chain: Chain, overlaps: Sequence[float] = MIXED) -> Move:
    """Change the mean weight of several encodings, each with one overlap for all positions outside the subset."""

    def mean(C: Floats) -> Floats:
        weights = 1 / (chain.q + (chain.T - chain.q) * np.exp(-C[..., None] * (1 - np.array(overlaps))))
        return np.asarray(weights.mean(-1))

    def move(s: Floats, gain: Floats) -> Floats:
        low, high = np.zeros_like(s), np.full_like(s, 1e4)
        for _ in range(80):
            middle = (low + high) / 2
            below = mean(middle) < s
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return mean(low + gain)

    return move


def induction_quotients(chain: Chain, move: Move) -> dict[str, float]:
    """The two quotients of the induction at or above alpha*, by actual steps at the largest rate."""
    turn = 1 / math.sqrt(chain.T * chain.q)
    late = ((1 - np.geomspace(1 - chain.q * turn, 1e-3, 300)) / chain.q)[:, None]
    share = np.linspace(0, 1, 21)[None]
    best, middle, top = chain.best(late), chain.upper(late, 1 / 4), chain.upper(late, 1 / 8)
    low, high = best + share * (middle - best), middle + share * (top - middle)
    ends = [chain.upper(move(late, chain.gain(late, alpha, chain.fast)), 1 / 8) for alpha in (low, high)]
    return {
        "(S2)": float(((top - ends[0]) / (top - middle)).max()),
        "induction above alpha*": float(((high - ends[1]) / (chain.eta * late * (high / best - 1))).max()),
    }
