"""Section 2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import section_2
from tests.contracts.claim_contract import ClaimContract


class TestSection2(ClaimContract):
    module = section_2
