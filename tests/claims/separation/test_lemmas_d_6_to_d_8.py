"""Lemma D.6, Lemma D.7 and Lemma D.8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_d_6_to_d_8
from tests.claims.separation.families import LemmaContract


class TestLemmasD6ToD8(LemmaContract):
    module = lemmas_d_6_to_d_8
    centred = "lemma-d.8"
