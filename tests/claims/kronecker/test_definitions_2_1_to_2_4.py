"""Definition 2.1 to Definition 2.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import definitions_2_1_to_2_4
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitions21To24(ClaimContract):
    module = definitions_2_1_to_2_4
    mutants = (
        ("definition-2.1", {"entrywise": 1}, FAILS),
        ("definition-2.2", {"tensor": 1}, FAILS),
        ("definition-2.3", {"kronecker": 1}, FAILS),
        ("definition-2.4", {"column": 1}, FAILS),
    )
    worlds = (("definition-2.3", {"turned": 0}, UNDECIDED),)
