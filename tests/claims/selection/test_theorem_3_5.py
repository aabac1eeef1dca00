"""Theorem 3.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_3_5
from tests.claims.cells import shortened
from tests.contracts.claim_contract import FAILS, HOLDS, ClaimContract


class TestTheorem35(ClaimContract):
    module = theorem_3_5
    mutants = (
        ("theorem-3.5", {"eigenvalue_gap": 1e-3}, FAILS),
        ("theorem-3.5", {"random_missed": 1e-3}, FAILS),
        ("theorem-3.5", {"squared_error": 0.0, "floor": 0.5}, FAILS),
    )


def test_the_trained_nets_run() -> None:
    finding = theorem_3_5.theorem_3_5_trained.judged(shortened("selection/theorem-3.5/trained-nets"))
    assert finding.verdict is HOLDS
    assert finding.numbers
