"""Lemma E.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemma_e_2
from tests.claims.selection.pairs import PairsContract


class TestLemmaE2(PairsContract):
    module = lemma_e_2
    pairs = "lemma-e.2"
