"""Definition 2.1 to Definition 2.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import definitions_2_1_to_2_5
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitions21To25(ClaimContract):
    module = definitions_2_1_to_2_5
    mutants = (
        ("definition-2.1", {"mean": 0.001}, FAILS),
        ("definition-2.1", {"sizes": 1}, FAILS),
        ("definition-2.1", {"pairs": 7.0}, FAILS),
        ("definition-2.2", {"one_hot": 1}, FAILS),
        ("definition-2.3", {"dot": 0.9}, FAILS),
        ("definition-2.3", {"code": 0.001}, FAILS),
        ("definition-2.4", {"it": 0.001}, FAILS),
        ("definition-2.5", {"valid": 7.0}, FAILS),
    )
    worlds = (("definition-2.5", {"everything": 1.0}, UNDECIDED),)
