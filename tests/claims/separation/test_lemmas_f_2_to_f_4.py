"""Lemma F.2, Lemma F.3 and Lemma F.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_f_2_to_f_4
from tests.claims.separation.families import LemmaContract


class TestLemmasF2ToF4(LemmaContract):
    module = lemmas_f_2_to_f_4
    special = "lemma-f.4"
