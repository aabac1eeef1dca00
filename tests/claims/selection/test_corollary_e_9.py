"""Corollary E.9: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import corollary_e_9
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestCorollaryE9(ClaimContract):
    module = corollary_e_9
    mutants = (("corollary-e.9", {"longer": 2.0}, FAILS),)
