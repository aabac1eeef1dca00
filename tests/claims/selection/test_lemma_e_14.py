"""Lemma E.14: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_14
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaE14(PairsContract):
    module = lemma_e_14
    pairs = "lemma-e.14"
    mutants = (
        ("lemma-e.14", {"uneven": 1e-3}, FAILS),
        ("lemma-e.14", {"unmoved": 1e-3}, FAILS),
    )
