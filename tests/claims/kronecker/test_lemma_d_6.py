"""Lemma D.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_d_6
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmaD6(ClaimContract):
    module = lemma_d_6
    mutants = (("lemma-d.6", {"violated": 1}, FAILS),)
    worlds = (("lemma-d.6", {"violated": 0}, UNDECIDED),)
