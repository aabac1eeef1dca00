"""Lemma C.5: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import lemma_c_5
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmaC5(ClaimContract):
    module = lemma_c_5
    mutants = (
        ("lemma-c.5/part-1", {"part1": 1}, FAILS),
        ("lemma-c.5/part-2", {"part2": 1}, FAILS),
        ("lemma-c.5/part-3", {"part3": 1}, FAILS),
    )


def test_the_experiment_sees_pairs_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    kronecker = lemma_c_5.column_kronecker
    monkeypatch.setattr(lemma_c_5, "column_kronecker", lambda *matrices: kronecker(*reversed(matrices)))
    assert lemma_c_5.tensor_identities(n=9, d=3, seed=0)["part1"] > 0
