"""Theorem 1.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import theorem_1_4
from tests.contracts.claim_contract import FAILS, HOLDS, ClaimContract


class TestTheorem14(ClaimContract):
    module = theorem_1_4
    mutants = (
        ("theorem-1.4/threshold", {"path": [2.0] * 9}, FAILS),
        ("theorem-1.4/threshold", {"at_half": [2.0] * 9}, FAILS),
        ("theorem-1.4/threshold", {"certified": 0}, FAILS),
    )
    worlds = (("theorem-1.4/threshold", {"polynomial_exponent": [1.01] * 45}, HOLDS),)
