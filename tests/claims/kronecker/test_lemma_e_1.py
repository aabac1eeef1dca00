"""Tests of Lemma E.1 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import lemma_e_1


def test_the_experiment_detects_missing_multinomials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma_e_1, "_multinomial", lambda alpha: 1)
    assert lemma_e_1.low_rank(d=2, degree=2, seed=0)["mismatches"] > 0
