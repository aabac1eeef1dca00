"""Definition C.1, Definition C.2 and Definition C.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import definitions_c_1_and_c_2_and_c_4
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinitionsC1AndC2AndC4(ClaimContract):
    module = definitions_c_1_and_c_2_and_c_4
    mutants = (
        ("definition-c.1", {"c_lin": 0.001}, FAILS),
        ("definition-c.2", {"F_lin": 0.001}, FAILS),
        ("definition-c.4", {"c_exp": 0.001}, FAILS),
    )
    worlds = (("definition-c.2", {"fires": 0}, FAILS),)
