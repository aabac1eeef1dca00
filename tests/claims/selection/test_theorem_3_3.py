"""Theorem 3.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_3_3
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem33(ClaimContract):
    module = theorem_3_3
    mutants = (
        ("theorem-3.3", {"times": [None]}, UNDECIDED),
        ("theorem-3.3", {"largest rate": [1.0, 1.0]}, FAILS),
    )
