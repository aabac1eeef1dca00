"""Lemma E.10 to Lemma E.13: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import lemmas_e_10_to_e_13
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmasE10ToE13(ClaimContract):
    module = lemmas_e_10_to_e_13
    mutants = (
        ("lemma-e.10", {"row flipped": 0.001}, FAILS),
        ("lemma-e.11", {"rows exchanged": 0.001}, FAILS),
        ("lemma-e.12", {"off": 0.001}, FAILS),
        ("lemma-e.13", {"apart": 0.001}, FAILS),
    )
    worlds = (
        ("lemma-e.12", {"row fits": True}, UNDECIDED),
        ("lemma-e.10", {"position flipped": 0.0}, UNDECIDED),
    )
