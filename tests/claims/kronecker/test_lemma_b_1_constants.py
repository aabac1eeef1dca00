"""Lemma B.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import lemma_b_1_constants
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmaB1Constants(ClaimContract):
    module = lemma_b_1_constants
    mutants = (
        ("lemma-b.1/constants", {"slack": {"square": -1, "cube": -1, "corrected": -1}}, FAILS),
        ("lemma-b.1/constants", {"equation_9": {"square": 90, "cube": 11}}, FAILS),
        ("lemma-b.1/threshold", {"case_2": [0.0] * 60}, FAILS),
        ("lemma-b.1/threshold", {"case_1": [-1e9] * 60}, FAILS),
        ("lemma-b.1/threshold", {"at_16": 2.0}, FAILS),
    )
    worlds = (
        ("lemma-b.1/constants", {"slack": {"square": 0, "cube": 0, "corrected": 0}}, UNDECIDED),
        ("lemma-b.1/constants", {"equation_9": {"square": 10, "cube": 10}}, UNDECIDED),
        ("lemma-b.1/threshold", {"printed": [0.0] * 60}, UNDECIDED),
    )
