"""Appendix A.2: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import appendix_a_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestAppendixA2(ClaimContract):
    module = appendix_a_2
    mutants = (
        ("appendix-a.2", {"loss_ratio": 1.5}, FAILS),
        ("appendix-a.2", {"slope_ratio": 0.5}, FAILS),
    )


def test_the_experiment_sees_a_loss_twice_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = appendix_a_2.exact_gradient
    monkeypatch.setattr(appendix_a_2, "exact_gradient", lambda *a: tuple(2 * part for part in exact(*a)))
    found = appendix_a_2.one_or_many(T=5, q=2, d=2, width=12, samples=4000, seed=0)
    assert abs(found["loss_ratio"] - 1) > 6 * found["loss_error"]
