"""Tests of Theorem 3.1 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import theorem_3_1


def test_the_experiment_detects_a_longer_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_3_1, "time_to_loss", lambda *_: 10**12)
    result = theorem_3_1.counted(sweep="T", T=16, q=2, d=2, lr=1 / 80, epsilon=2e-3, seed=0)
    assert result["steps"] > result["bound"]
