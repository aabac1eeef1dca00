"""Theorem E.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import theorem_e_3
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestTheoremE3(ClaimContract):
    module = theorem_e_3
    worlds = (("theorem-e.3", {"exponent": 3.0}, FAILS),)
