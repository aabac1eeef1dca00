"""Appendix F: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import appendix_f
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestAppendixF(ClaimContract):
    module = appendix_f
    mutants = (("appendix-f/restricted-isometry", {"lower": 0.4}, UNDECIDED),)
