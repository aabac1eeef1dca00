"""Definition 1.5: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

import separatrix as sx
from separatrix.claims.kronecker import definition_1_5
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestDefinition15(ClaimContract):
    module = definition_1_5
    mutants = (
        ("definition-1.5", {"exact": 1e-9}, FAILS),
        ("definition-1.5", {"polynomial": 1e-3}, FAILS),
    )
    worlds = (("definition-1.5", {"printed": 0.0}, UNDECIDED),)


def test_the_experiment_sees_another_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = sx.tensor_attention
    monkeypatch.setattr(sx, "tensor_attention", lambda *inputs: attention(*inputs, scale=1.0))
    assert definition_1_5.order_k(order=3, n=7, d=3, seed=0)["exact"] > 1e-6
