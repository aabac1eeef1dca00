"""Lemma E.14: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_14
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaE14(ClaimContract):
    module = lemma_e_14
    mutants = (
        ("lemma-e.14", {"uneven": 1e-3}, FAILS),
        ("lemma-e.14", {"unmoved": 1e-3}, FAILS),
    )
