"""Lemma B.1: the recorded verdict, and what would change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from separatrix.claims.kronecker import lemma_b_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmaB1(ClaimContract):
    module = lemma_b_1
    mutants = (
        ("lemma-b.1", {"case_1": [2.9]}, FAILS),
        ("lemma-b.1", {"case_2": [1.0]}, FAILS),
        ("lemma-b.1/values", {"blocks_that_differ": 1}, FAILS),
        ("lemma-b.1/values", {"sums_out_of_bounds": 1}, FAILS),
        ("lemma-b.1/values", {"right_mistakes": 1}, FAILS),
        ("lemma-b.1/smallest-beta", {"ahead_below": 1.0}, FAILS),
        ("lemma-b.1/smallest-beta", {"ahead_above": -1.0}, FAILS),
        ("lemma-b.1/smallest-beta", {"errs_below": -1.0}, FAILS),
        ("lemma-b.1/smallest-beta", {"errs_above": 1.0}, FAILS),
    )
    worlds = (
        ("lemma-b.1", {"case_2": []}, UNDECIDED),
        ("lemma-b.1/values", {"printed_mistakes": 0}, UNDECIDED),
    )

    def test_rows_of_a_case_occur(self) -> None:
        for one in self.found("lemma-b.1"):
            assert one.result["case_1"] + one.result["case_2"]


def test_the_experiment_sees_a_smaller_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma_b_1, "beta_of_the_rule", lambda *inputs: 1.0)
    found = lemma_b_1.decides(n=12, d=16, low=9, high=11, seed=0)
    assert min(found["case_1"]) < 3 or max(found["case_2"]) >= 1


def test_the_experiment_sees_blanks_that_count_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    made = lemma_b_1.pad_for_attention
    monkeypatch.setattr(lemma_b_1, "pad_for_attention", lambda *inputs: _with_blanks(made(*inputs)))
    assert lemma_b_1.values(n=4, d=8, seed=0)["right_mistakes"] > 0


def _with_blanks(made: Any) -> Any:
    return replace(made, values=tuple(torch.ones_like(one) for one in made.values))
