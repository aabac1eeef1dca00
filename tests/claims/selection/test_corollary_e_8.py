"""Corollary E.8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import corollary_e_8
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestCorollaryE8(ClaimContract):
    module = corollary_e_8
    mutants = (
        ("corollary-e.8", {"above": 1.7}, FAILS),
        ("corollary-e.8", {"high": 1.7}, FAILS),
        ("corollary-e.8", {"low": -0.2}, FAILS),
        ("corollary-e.8", {"time": 100.0}, FAILS),
        ("corollary-e.8", {"fell": 1}, FAILS),
    )
