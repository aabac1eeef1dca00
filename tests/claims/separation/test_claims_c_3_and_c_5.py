"""Claim C.3 and Claim C.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.separation import claims_c_3_and_c_5
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestClaimsC3AndC5(ClaimContract):
    module = claims_c_3_and_c_5
    worlds = (
        ("claim-c.3", {"sums": 1}, FAILS),
        ("claim-c.5", {"blocks": 1}, FAILS),
    )
