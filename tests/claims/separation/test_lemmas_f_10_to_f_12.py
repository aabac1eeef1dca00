"""Lemma F.10, Lemma F.11 and Lemma F.12: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_f_10_to_f_12
from tests.claims.separation.families import LemmaContract


class TestLemmasF10ToF12(LemmaContract):
    module = lemmas_f_10_to_f_12
