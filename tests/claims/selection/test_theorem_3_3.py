"""Theorem 3.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_3_3
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem33(ClaimContract):
    module = theorem_3_3
    mutants = (
        ("theorem-3.3", {"times": [None]}, UNDECIDED),
        ("theorem-3.3", {"largest rate": [1.0, 1.0]}, FAILS),
        ("theorem-3.3", {"times": [20_000]}, UNDECIDED),
        ("theorem-3.3", {"flow": [158_555.0, 1_094_440.0, 14_000_000.0]}, FAILS),
    )
