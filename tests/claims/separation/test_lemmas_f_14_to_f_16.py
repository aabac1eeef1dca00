"""Lemma F.14, Lemma F.15 and Lemma F.16: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_f_14_to_f_16
from tests.claims.separation.families import LemmaContract


class TestLemmasF14ToF16(LemmaContract):
    module = lemmas_f_14_to_f_16
