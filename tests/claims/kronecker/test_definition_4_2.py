"""Tests of Definition 4.2 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import definition_4_2
from separatrix.hardness import orthogonal_vectors
from tests.claims.cells import ran


def test_both_kinds_of_formulas_occur() -> None:
    assert {cell.result["satisfying"] > 0 for cell in ran("kronecker/definition-4.2")} == {True, False}


def test_the_experiment_detects_a_missing_clause(monkeypatch: pytest.MonkeyPatch) -> None:
    unsatisfied = orthogonal_vectors._unsatisfied
    monkeypatch.setattr(orthogonal_vectors, "_unsatisfied", lambda *inputs: unsatisfied(*inputs)[:, 1:])
    assert definition_4_2.chain(variables=6, clauses=3, planted=False, seed=0)["triples_that_differ"] > 0
