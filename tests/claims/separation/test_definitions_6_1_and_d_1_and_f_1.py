"""Definition 6.1, Definition D.1 and Definition F.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import definitions_6_1_and_d_1_and_f_1
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinitions61AndD1AndF1(ClaimContract):
    module = definitions_6_1_and_d_1_and_f_1
    mutants = (
        ("definition-6.1", {"printed": 1}, FAILS),
        ("definition-d.1", {"alike": 0}, FAILS),
        ("definition-f.1", {"printed": 1}, FAILS),
    )
