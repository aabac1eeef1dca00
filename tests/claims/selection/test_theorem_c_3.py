"""Tests of Theorem C.3 in addition to the tests of all claims."""

from __future__ import annotations

import pytest
import torch

from separatrix.claims.selection import theorem_c_3


def test_the_experiment_measures_the_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_c_3, "overlaps", lambda E, y: torch.zeros(len(y), 1))
    sizes = {"T": 30, "q": 2, "d": 5, "width": 64, "threshold": 0.4, "epsilon": 0.1, "samples": 50}
    assert theorem_c_3.constructed(**sizes, seed=0)["proof_share"] == 1.0
