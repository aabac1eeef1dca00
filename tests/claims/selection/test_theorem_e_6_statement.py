"""Theorem E.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_e_6_statement
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheoremE6Statement(ClaimContract):
    module = theorem_e_6_statement
    mutants = (
        ("theorem-e.6", {"increases": 1}, FAILS),
        ("theorem-e.6", {"times": [None]}, UNDECIDED),
        ("theorem-e.6", {"times": [20_000]}, UNDECIDED),
        ("theorem-e.6", {"flow": [158_555.0, 1_094_440.0, 14_000_000.0]}, FAILS),
        ("theorem-e.6/mean-weights", {"1": -0.001}, FAILS),
        ("theorem-e.6/mean-weights", {"2": -0.001}, FAILS),
        ("theorem-e.6/mean-weights", {"4": -0.001}, FAILS),
        ("theorem-e.6/mean-weights", {"spread": 0.0}, UNDECIDED),
    )
