"""Theorem C.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_c_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheoremC1(ClaimContract):
    module = theorem_c_1
    mutants = (
        ("theorem-c.1", {"error": 0.0}, FAILS),
        ("theorem-c.1", {"step": 0.001}, FAILS),
    )
    worlds = (("theorem-c.1", {"rows": 1000}, UNDECIDED),)
