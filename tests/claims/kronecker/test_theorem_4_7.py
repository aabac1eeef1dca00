"""Theorem 4.7: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import theorem_4_7
from separatrix.hardness.protocol import Protocol
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem47(ClaimContract):
    module = theorem_4_7
    mutants = (
        ("theorem-4.7/cases", {"orthogonal_below_full": 1}, FAILS),
        ("theorem-4.7/cases", {"others_above_half": 1}, FAILS),
        ("theorem-4.7/time", {"plus": "0"}, FAILS),
        ("theorem-4.7/time", {"claimed": "10000"}, FAILS),
    )
    worlds = (
        ("theorem-4.7/cases", {"orthogonal_above_half": 0, "others_below_full": 0}, UNDECIDED),
        ("theorem-4.7/cases", {"orthogonal": 0}, FAILS),
        ("theorem-4.7/time", {"minus": "0", "plus": "0", "orthogonal_vectors": "0", "claimed": "0"}, UNDECIDED),
        ("theorem-4.7", {"every_message": [0.0] * 10}, UNDECIDED),
    )


def test_the_experiment_sees_a_short_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_4_7, "Protocol", lambda m, parts: Protocol(m, parts, length=4))
    assert theorem_4_7.vectors(n=4, m=6, parts=3, seed=0)["others_above_half"] > 0
