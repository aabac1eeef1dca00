"""Theorem 3.1: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import theorem_3_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem31(ClaimContract):
    module = theorem_3_1
    mutants = (
        ("theorem-3.1", {"steps": 1}, FAILS),
        ("theorem-3.1", {"time": 1e13}, FAILS),
        ("theorem-3.1", {"allowed": 0}, UNDECIDED),
    )


def test_the_experiment_sees_a_longer_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_3_1, "time_to_loss", lambda *_: 10**12)
    one = theorem_3_1.counted(sweep="T", T=16, q=2, d=2, lr=1 / 80, epsilon=2e-3, seed=0)
    assert one["steps"] > one["bound"]
