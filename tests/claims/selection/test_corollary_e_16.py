"""Corollary E.16: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import corollary_e_16
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestCorollaryE16(ClaimContract):
    module = corollary_e_16
    mutants = (
        ("corollary-e.16", {"induction": 1.1}, FAILS),
        ("corollary-e.16", {"loss": 1.1}, FAILS),
    )
    worlds = (
        ("corollary-e.16", {"rounded": 0.9}, UNDECIDED),
        ("corollary-e.16", {"equal": 0.0}, UNDECIDED),
    )
