"""The proofs of Lemma E.1, Lemma E.2 and Lemma F.6: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.separation import lemmas_e_1_and_e_2_and_f_6_proofs
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract, every

NAMES = {
    "lemma-e.1/proof": "exponent of Part 1b",
    "lemma-e.2/proof": "bound for Part 4",
    "lemma-f.6/proof": "bound for Part 3a",
}


class TestLemmasE1AndE2AndF6Proofs(ClaimContract):
    module = lemmas_e_1_and_e_2_and_f_6_proofs

    @pytest.mark.parametrize("id", sorted(NAMES))
    def test_a_misprint_that_is_not_shown_and_a_correction_that_is_missed(self, id: str) -> None:
        assert self.verdict(id, every(self.found(id), **{NAMES[id]: [0.0, 0.0]})) is UNDECIDED
        assert self.verdict(id, every(self.found(id), **{NAMES[id]: [0.5, 0.5]})) is FAILS
