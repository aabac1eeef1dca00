"""Theorem 1.1 and Theorem 1.2: the recorded verdict, and what would change it."""

from __future__ import annotations

from dataclasses import replace

from separatrix.claims.separation import theorems_1_1_and_1_2
from tests.claims.separation.families import columns
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestTheorems11And12(ClaimContract):
    module = theorems_1_1_and_1_2

    def test_a_separation_that_never_succeeds_refutes_existence(self, any_id: str) -> None:
        found = [replace(one, result={**one.result, **columns(one, success=-0.1)}) for one in self.found(any_id)]
        assert self.verdict(any_id, found) is FAILS
