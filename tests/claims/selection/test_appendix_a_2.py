"""Tests of Appendix A.2 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import appendix_a_2


def test_the_experiment_detects_a_doubled_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = appendix_a_2.exact_gradient
    monkeypatch.setattr(appendix_a_2, "exact_gradient", lambda *a: tuple(2 * part for part in exact(*a)))
    result = appendix_a_2.one_or_many(T=5, q=2, d=2, width=12, samples=4000, seed=0)
    assert abs(result["loss_ratio"] - 1) > 6 * result["loss_error"]
