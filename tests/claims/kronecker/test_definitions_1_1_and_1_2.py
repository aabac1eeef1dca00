"""Definition 1.1 and Definition 1.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definitions_1_1_and_1_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinitions11And12(ClaimContract):
    module = definitions_1_1_and_1_2
    mutants = (
        ("definition-1.1", {"it": 0.001}, FAILS),
        ("definition-1.2", {"approximate": 1.0}, FAILS),
        ("definition-1.2", {"certificate": 1.0}, FAILS),
        ("definition-1.2", {"largest": 9.0}, FAILS),
    )
