"""Lemma E.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_e_2
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmaE2(ClaimContract):
    module = lemma_e_2
    mutants = (
        ("lemma-e.2", {"error": 0.2}, FAILS),
        ("lemma-e.2", {"least": -1.0}, FAILS),
        ("lemma-e.2", {"rank": 1000000000}, FAILS),
    )
    worlds = (
        ("lemma-e.2", {"straightforward": 1.0}, UNDECIDED),
        ("lemma-e.2", {"formula": 1.0}, UNDECIDED),
    )
