"""Definition A.1 and Definition A.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definitions_a_1_and_a_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinitionsA1AndA2(ClaimContract):
    module = definitions_a_1_and_a_2
    mutants = (
        ("definition-a.1", {"products": 1}, FAILS),
        ("definition-a.2", {"largest": 1}, FAILS),
    )
