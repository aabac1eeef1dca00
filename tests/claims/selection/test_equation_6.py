"""Equation (6): the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import equation_6
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestEquation6(ClaimContract):
    module = equation_6
    mutants = (
        ("equation-6", {"gap": 1.0}, FAILS),
        ("equation-6", {"factor": 1.0}, FAILS),
    )
