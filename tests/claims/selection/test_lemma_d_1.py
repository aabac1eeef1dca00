"""Tests of Lemma D.1 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import lemma_d_1


def test_the_experiment_detects_a_gradient_of_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = lemma_d_1.batch_gradient
    monkeypatch.setattr(lemma_d_1, "batch_gradient", lambda *a: tuple(-part for part in gradient(*a)))
    assert lemma_d_1.batch_gradients(T=5, q=2, d=2, width=6, seed=0)["apart"] > 1e-3
