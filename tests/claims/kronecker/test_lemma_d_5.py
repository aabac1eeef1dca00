"""Lemma D.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_d_5
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaD5(ClaimContract):
    module = lemma_d_5
    mutants = (("lemma-d.5", {"violations": 1}, FAILS),)
