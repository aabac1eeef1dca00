"""Definition C.2 and Definition D.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definitions_c_2_and_d_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitionsC2AndD1(ClaimContract):
    module = definitions_c_2_and_d_1
    mutants = (
        ("definition-c.2", {"corrected": 1e-3}, FAILS),
        ("definition-d.1", {"corrected": 1e-3}, FAILS),
    )
    worlds = (
        ("definition-c.2", {"c2_printed": 0.0}, UNDECIDED),
        ("definition-d.1", {"d1_printed": 0.0}, UNDECIDED),
    )
