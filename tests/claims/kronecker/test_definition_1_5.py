"""Tests of Definition 1.5 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

import separatrix as sx
from separatrix.claims.kronecker import definition_1_5


def test_the_experiment_detects_another_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = sx.tensor_attention
    monkeypatch.setattr(sx, "tensor_attention", lambda *inputs: attention(*inputs, scale=1.0))
    assert definition_1_5.order_k(order=3, n=7, d=3, seed=0)["exact"] > 1e-6
