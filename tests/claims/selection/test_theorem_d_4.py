"""Theorem D.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import theorem_d_4
from tests.contracts.claim_contract import ClaimContract


class TestTheoremD4(ClaimContract):
    module = theorem_d_4
