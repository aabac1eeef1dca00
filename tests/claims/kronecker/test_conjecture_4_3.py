"""Conjecture 4.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import conjecture_4_3
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestConjecture43(ClaimContract):
    module = conjecture_4_3
    mutants = (("conjecture-4.3", {"direct_work": [99.0] * 10}, UNDECIDED),)
