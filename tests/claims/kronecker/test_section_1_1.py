"""Tests of Section 1.1 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import section_1_1


def test_the_experiment_detects_a_larger_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_1_1, "max_order", lambda n, bound: 9)
    result = section_1_1.rule(log2_n=20, bounds=[2.0], seed=0)
    assert result["order"] != result["solved"]
