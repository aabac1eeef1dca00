"""Lemma E.7: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_7
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaE7(PairsContract):
    module = lemma_e_7
    pairs = "lemma-e.7"
    mutants = (
        ("lemma-e.7", {"spread": 1e-3}, FAILS),
        ("lemma-e.7", {"bounds": 1e-3}, FAILS),
    )
