"""Theorem 1.3: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.kronecker import theorem_1_3
from tests.contracts.claim_contract import UNDECIDED, ClaimContract


class TestTheorem13(ClaimContract):
    module = theorem_1_3
    worlds = (("theorem-1.3", {"polynomial_exponent": [1.01] * 45}, UNDECIDED),)

    def test_the_polynomial_is_cheaper_on_one_side_of_the_border(self) -> None:
        for one in self.found("theorem-1.3"):
            result = one.result
            for ratio, exponent in zip(one.parameters["ratios"], result["polynomial_exponent"], strict=True):
                assert (exponent < result["exact_exponent"]) == (ratio <= result["border"])
