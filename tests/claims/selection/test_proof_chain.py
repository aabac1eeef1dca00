"""The chain of the proofs of Theorems D.4 and E.6: its quotients move with the constants, and its time is descent's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.claims.selection.proof_chain import Chain, steps
from separatrix.selection.dynamics import time_to_loss

SMALL = Chain(T=9, q=2, d=1, epsilon=6.3e-3, eta=1 / 20, slow=1 / 8, fast=1 / 8, kappa=1.0)


def test_the_induction_needs_kappa_and_the_rate() -> None:
    """(S2) is in proportion to eta and fails at a rate that is large enough; the induction follows kappa."""
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
