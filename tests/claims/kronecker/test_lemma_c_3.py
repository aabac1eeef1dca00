"""Lemma C.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_c_3
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaC3(ClaimContract):
    module = lemma_c_3
    mutants = (
        ("lemma-c.3", {"mismatches": 1}, FAILS),
        ("lemma-c.3", {"factored_flops": 7}, FAILS),
    )
