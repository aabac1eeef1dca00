"""Hypothesis 4.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import hypothesis_4_1
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestHypothesis41(ClaimContract):
    module = hypothesis_4_1
    mutants = (("hypothesis-4.1", {"direct_work": [99.0] * 10}, UNDECIDED),)
