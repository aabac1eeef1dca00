"""Lemma D.10, Lemma D.11 and Lemma D.12: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_d_10_to_d_12
from tests.claims.separation.families import LemmaContract


class TestLemmasD10ToD12(LemmaContract):
    module = lemmas_d_10_to_d_12
    centred = "lemma-d.12"
