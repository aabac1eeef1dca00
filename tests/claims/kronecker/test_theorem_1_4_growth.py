"""Theorem 1.4: the recorded verdict, and what would change it."""

from __future__ import annotations

from dataclasses import replace

from separatrix.claims.kronecker import theorem_1_4_growth
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem14Growth(ClaimContract):
    module = theorem_1_4_growth
    mutants = (
        ("theorem-1.4/linear-growth", {"counted_flops": 1}, FAILS),
        ("theorem-1.4/linear-growth", {"state_bytes": 8}, FAILS),
        ("theorem-1.4/linear-growth", {"certificate": 1.0}, FAILS),
        ("theorem-1.4/linear-growth", {"error": 1.0}, FAILS),
    )

    def test_a_rank_that_moves_with_n_is_not_judged(self) -> None:
        id = "theorem-1.4/linear-growth"
        one = [one for one in self.found(id) if "counted_flops" in one.result][-1]
        scaled = {name: 2 * one.result[name] for name in ("rank", "counted_flops", "planned_flops", "state_bytes")}
        found = [replace(one, result={**one.result, **scaled}) if other is one else other for other in self.found(id)]
        assert self.verdict(id, found) is UNDECIDED
