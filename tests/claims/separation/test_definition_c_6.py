"""Definition C.6: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import definition_c_6
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinitionC6(ClaimContract):
    module = definition_c_6
    worlds = (
        ("definition-c.6", {"network": 1e-6}, FAILS),
        ("definition-c.6", {"takes_n": True}, UNDECIDED),
    )
