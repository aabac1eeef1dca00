"""Lemma 3.2 and Lemma 3.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemmas_3_2_and_3_4
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmas32And34(ClaimContract):
    module = lemmas_3_2_and_3_4
    mutants = (
        ("lemma-3.2", {"W": 0.001}, FAILS),
        ("lemma-3.2", {"V": 0.001}, FAILS),
        ("lemma-3.4", {"W": 0.001}, FAILS),
        ("lemma-3.4", {"C": 0.0}, FAILS),
    )
