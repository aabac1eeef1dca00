"""Lemma D.14, Lemma D.15 and Lemma D.16: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_d_14_to_d_16
from tests.claims.separation.families import LemmaContract


class TestLemmasD14ToD16(LemmaContract):
    module = lemmas_d_14_to_d_16
    centred = "lemma-d.16"
