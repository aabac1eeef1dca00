"""Lemma E.3, Lemma E.4 and Lemma E.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemmas_e_3_to_e_5
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmasE3ToE5(ClaimContract):
    module = lemmas_e_3_to_e_5
    mutants = (
        ("lemma-e.3", {"E.3": 0.001}, FAILS),
        ("lemma-e.4", {"E.4": 0.001}, FAILS),
        ("lemma-e.5", {"E.5": 0.001}, FAILS),
    )
    worlds = (("lemma-e.3", {"E.3 outside": 0.0}, UNDECIDED),)
