"""Theorem C.3: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest
import torch

from separatrix.claims.selection import theorem_c_3
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestTheoremC3(PairsContract):
    module = theorem_c_3
    pairs = "theorem-c.3/proof"
    mutants = (
        ("theorem-c.3", {"error": 1.0}, FAILS),
        ("theorem-c.3", {"over_bound": 1.1}, FAILS),
        ("theorem-c.3", {"proof_error": 1.0}, FAILS),
        ("theorem-c.3", {"dual_error": 0.02}, FAILS),
    )


def test_the_experiment_asks_for_the_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_c_3, "overlaps", lambda E, y: torch.zeros(len(y), 1))
    sizes = {"T": 30, "q": 2, "d": 5, "width": 64, "threshold": 0.4, "epsilon": 0.1, "samples": 50}
    assert theorem_c_3.constructed(**sizes, seed=0)["proof_share"] == 1.0
