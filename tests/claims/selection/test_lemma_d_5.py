"""Lemma D.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_d_5
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaD5(PairsContract):
    module = lemma_d_5
    pairs = "lemma-d.5"
    mutants = (
        ("lemma-d.5", {"leaves": 1e-3}, FAILS),
        ("lemma-d.5", {"off": 1e-3}, FAILS),
    )
