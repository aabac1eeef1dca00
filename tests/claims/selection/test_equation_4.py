"""Equation (4): the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import equation_4
from tests.contracts.claim_contract import ClaimContract


class TestEquation4(ClaimContract):
    module = equation_4
