"""Theorem E.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_e_6
from tests.contracts.claim_contract import ClaimContract


class TestTheoremE6(ClaimContract):
    module = theorem_e_6
