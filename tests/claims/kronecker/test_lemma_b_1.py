"""Tests of Lemma B.1 in addition to the tests of all claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from separatrix.claims.kronecker import lemma_b_1
from tests.claims.cells import ran


def test_rows_of_a_case_occur() -> None:
    for cell in ran("kronecker/lemma-b.1"):
        assert cell.result["case_1"] + cell.result["case_2"]


def test_the_experiment_detects_a_smaller_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma_b_1, "beta_of_the_rule", lambda *inputs: 1.0)
    outputs = lemma_b_1.decides(n=12, d=16, low=9, high=11, seed=0)
    assert min(outputs["case_1"]) < 3 or max(outputs["case_2"]) >= 1


def test_the_experiment_detects_blanks_counted_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    pad = lemma_b_1.pad_for_attention
    monkeypatch.setattr(lemma_b_1, "pad_for_attention", lambda *inputs: _with_blanks(pad(*inputs)))
    assert lemma_b_1.values(n=4, d=8, seed=0)["right_mistakes"] > 0


def _with_blanks(padded: Any) -> Any:
    return replace(padded, values=tuple(torch.ones_like(values) for values in padded.values))
