"""Lemma E.7: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_7
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaE7(ClaimContract):
    module = lemma_e_7
    mutants = (
        ("lemma-e.7", {"spread": 1e-3}, FAILS),
        ("lemma-e.7", {"bounds": 1e-3}, FAILS),
    )
