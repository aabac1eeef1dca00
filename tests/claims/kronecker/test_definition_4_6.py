"""Definition 4.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definition_4_6
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinition46(ClaimContract):
    module = definition_4_6
    mutants = (
        ("definition-4.6", {"products_that_differ": 1}, FAILS),
        ("definition-4.6", {"below": [0, 1]}, FAILS),
        ("definition-4.6", {"answers": [True, False]}, FAILS),
        ("definition-4.6", {"answer_is_wrong": 1}, FAILS),
    )
