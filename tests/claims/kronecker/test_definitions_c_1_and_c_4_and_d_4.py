"""Definition C.1, Definition C.4 and Definition D.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definitions_c_1_and_c_4_and_d_4
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitionsC1AndC4AndD4(ClaimContract):
    module = definitions_c_1_and_c_4_and_d_4
    mutants = (
        ("definition-c.1", {"it": 0.001}, FAILS),
        ("definition-c.4", {"differ": 1}, FAILS),
        ("definition-d.4", {"rank": 1000}, FAILS),
    )
    worlds = (
        ("definition-c.4", {"by_printed_range": True}, UNDECIDED),
        ("definition-d.4", {"relative": 1.0, "absolute": 1.0}, FAILS),
    )
