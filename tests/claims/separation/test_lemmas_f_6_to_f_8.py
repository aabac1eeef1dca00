"""Lemma F.6, Lemma F.7 and Lemma F.8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_f_6_to_f_8
from tests.claims.separation.families import LemmaContract


class TestLemmasF6ToF8(LemmaContract):
    module = lemmas_f_6_to_f_8
