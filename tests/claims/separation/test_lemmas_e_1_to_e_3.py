"""Lemma E.1, Lemma E.2 and Lemma E.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import lemmas_e_1_to_e_3
from tests.claims.separation.families import LemmaContract


class TestLemmasE1ToE3(LemmaContract):
    module = lemmas_e_1_to_e_3
    special = "lemma-e.3"
