"""Tests of Theorem 4.7 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import theorem_4_7
from separatrix.hardness.protocol import Protocol


def test_the_experiment_detects_a_short_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_4_7, "Protocol", lambda m, parts: Protocol(m, parts, length=4))
    assert theorem_4_7.vectors(n=4, m=6, parts=3, seed=0)["others_above_half"] > 0
