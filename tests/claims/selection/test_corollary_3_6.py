"""Corollary 3.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import corollary_3_6
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestCorollary36(ClaimContract):
    module = corollary_3_6
    mutants = (("corollary-3.6", {"limit": [1.0] * 4}, UNDECIDED),)
