"""The proof of Lemma B.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_b_1_proof
from tests.claims.selection.pairs import PairsContract


class TestLemmaB1Proof(PairsContract):
    module = lemma_b_1_proof
    pairs = "lemma-b.1/proof"
