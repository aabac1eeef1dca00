"""Corollary D.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import corollary_d_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestCorollaryD2(ClaimContract):
    module = corollary_d_2
    mutants = (
        ("corollary-d.2", {"enough": 400}, FAILS),
        ("corollary-d.2", {"needed": 0}, FAILS),
        ("corollary-d.2", {"error": 0.5}, FAILS),
    )
