"""Theorem 4.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import theorem_4_4
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestTheorem44(ClaimContract):
    module = theorem_4_4
    mutants = (
        ("theorem-4.4", {"not_systematic": 1}, UNDECIDED),
        ("theorem-4.4", {"not_closed": 1}, UNDECIDED),
        ("theorem-4.4", {"too_near": 1}, UNDECIDED),
        ("theorem-4.4", {"distance": 0.001}, UNDECIDED),
    )
