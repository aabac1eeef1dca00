"""Lemma A.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_a_2
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestLemmaA2(ClaimContract):
    module = lemma_a_2
    mutants = (("lemma-a.2", {"C": None}, UNDECIDED),)
