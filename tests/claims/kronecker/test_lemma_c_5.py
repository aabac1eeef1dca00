"""Tests of Lemma C.5 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import lemma_c_5


def test_the_experiment_detects_pairs_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    kronecker = lemma_c_5.column_kronecker
    monkeypatch.setattr(lemma_c_5, "column_kronecker", lambda *matrices: kronecker(*reversed(matrices)))
    assert lemma_c_5.tensor_identities(n=9, d=3, seed=0)["part1"] > 0
