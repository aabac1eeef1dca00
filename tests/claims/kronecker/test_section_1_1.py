"""Section 1.1: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import section_1_1
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestSection11(ClaimContract):
    module = section_1_1
    mutants = (
        ("section-1.1/largest-order", {"order": [1] * 15}, FAILS),
        ("section-1.1/largest-order", {"above": [1.0] * 15}, FAILS),
    )


def test_the_experiment_sees_an_order_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_1_1, "max_order", lambda n, bound: 9)
    found = section_1_1.rule(log2_n=20, bounds=[2.0], seed=0)
    assert found["order"] != found["solved"]
