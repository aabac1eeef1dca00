"""Lemma 3.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemma_3_1
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemma31(ClaimContract):
    module = lemma_3_1
    mutants = (("lemma-3.1", {"quotient": [1.0], "log10": [0.0]}, FAILS),)
