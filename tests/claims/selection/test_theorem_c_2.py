"""Theorem C.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_c_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestTheoremC2(ClaimContract):
    module = theorem_c_2
    mutants = (
        ("theorem-c.2", {"scaled": 0.9}, FAILS),
        ("theorem-c.2", {"error": 0.01}, FAILS),
    )
