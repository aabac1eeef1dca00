"""Definition A.1, Definition A.4, Definition D.3 and Definition E.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import definitions_a_1_and_a_4_and_d_3_and_e_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitionsA1AndA4AndD3AndE1(ClaimContract):
    module = definitions_a_1_and_a_4_and_d_3_and_e_1
    mutants = (
        ("definition-a.1", {"it": 0.001}, FAILS),
        ("definition-a.4", {"mean": 0.001}, FAILS),
        ("definition-d.3", {"orthogonal": 0.001}, FAILS),
        ("definition-e.1", {"valid": 7.0}, FAILS),
        ("definition-e.1", {"rows of Z": [1.0, 1.0]}, FAILS),
    )
    worlds = (("definition-e.1", {"rows of Z": [0.0, 0.0]}, UNDECIDED),)
