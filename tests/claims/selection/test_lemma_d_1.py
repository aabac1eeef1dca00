"""Lemma D.1: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import lemma_d_1
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaD1(PairsContract):
    module = lemma_d_1
    pairs = "lemma-d.1"
    mutants = (("lemma-d.1", {"apart": 1e-3}, FAILS), ("lemma-d.1", {"literal": 1e-3}, FAILS))


def test_the_experiment_sees_a_gradient_of_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = lemma_d_1.batch_gradient
    monkeypatch.setattr(lemma_d_1, "batch_gradient", lambda *a: tuple(-part for part in gradient(*a)))
    assert lemma_d_1.batch_gradients(T=5, q=2, d=2, width=6, seed=0)["apart"] > 1e-3
