"""Lemma E.15: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_15
from tests.contracts.claim_contract import ClaimContract


class TestLemmaE15(ClaimContract):
    module = lemma_e_15
