"""Section 3.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import section_3_1
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestSection31(ClaimContract):
    module = section_3_1
    mutants = (
        ("section-3.1/times", {"sums": 7}, FAILS),
        ("section-3.1/times", {"error": 0.001}, FAILS),
    )
