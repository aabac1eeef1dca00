"""Lemma D.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_d_3
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaD3(ClaimContract):
    module = lemma_d_3
    mutants = (("lemma-d.3", {"violations": 1}, FAILS),)
