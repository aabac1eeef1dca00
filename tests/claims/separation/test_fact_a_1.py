"""Fact A.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import fact_a_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestFactA1(ClaimContract):
    module = fact_a_1
    worlds = (
        ("fact-a.1", {"by_rows": 1}, FAILS),
        ("fact-a.1", {"by_columns": 0}, UNDECIDED),
    )
