"""Definition 4.2: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import definition_4_2
from separatrix.hardness import orthogonal_vectors
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestDefinition42(ClaimContract):
    module = definition_4_2
    mutants = (
        ("definition-4.2", {"triples_that_differ": 1}, FAILS),
        ("definition-4.2", {"vectors": 10**6}, FAILS),
    )

    def test_both_kinds_of_formulas_occur(self) -> None:
        assert {one.result["satisfying"] > 0 for one in self.found("definition-4.2")} == {True, False}


def test_the_experiment_sees_a_clause_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    unsatisfied = orthogonal_vectors._unsatisfied
    monkeypatch.setattr(orthogonal_vectors, "_unsatisfied", lambda *inputs: unsatisfied(*inputs)[:, 1:])
    assert definition_4_2.chain(variables=6, clauses=3, planted=False, seed=0)["triples_that_differ"] > 0
