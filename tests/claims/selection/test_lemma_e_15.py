"""Lemma E.15: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_15
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaE15(PairsContract):
    module = lemma_e_15
    pairs = "lemma-e.15"
    worlds = (("lemma-e.15", {"c": 0.04}, FAILS), ("lemma-e.15", {"weight": 0.9}, FAILS))
