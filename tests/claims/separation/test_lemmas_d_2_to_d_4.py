"""Lemma D.2, Lemma D.3 and Lemma D.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_d_2_to_d_4
from tests.claims.separation.families import LemmaContract


class TestLemmasD2ToD4(LemmaContract):
    module = lemmas_d_2_to_d_4
    special = "lemma-d.4"
