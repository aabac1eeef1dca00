"""Lemma E.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_2
from tests.contracts.claim_contract import ClaimContract


class TestLemmaE2(ClaimContract):
    module = lemma_e_2
