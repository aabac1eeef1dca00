"""Shapes in the proofs of Lemma D.1, Lemma D.5 and Lemma E.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemmas_d_1_and_d_5_and_e_2_shapes
from tests.claims.selection.pairs import PairsContract


class TestLemmaD1Shapes(PairsContract):
    module = lemmas_d_1_and_d_5_and_e_2_shapes
    pairs = "lemma-d.1/shapes"


class TestLemmaD5Shapes(PairsContract):
    module = lemmas_d_1_and_d_5_and_e_2_shapes
    pairs = "lemma-d.5/shapes"


class TestLemmaE2Shapes(PairsContract):
    module = lemmas_d_1_and_d_5_and_e_2_shapes
    pairs = "lemma-e.2/shapes"
