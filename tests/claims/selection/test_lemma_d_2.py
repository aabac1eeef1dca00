"""Lemma D.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_d_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaD2(ClaimContract):
    module = lemma_d_2
    mutants = (("lemma-d.2", {"lemma": 1e-3}, FAILS),)
