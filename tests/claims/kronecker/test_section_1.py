"""Tests of Section 1 in addition to the tests of all claims."""

from __future__ import annotations

import pytest
import torch

from separatrix.claims.kronecker import section_1


def test_the_experiments_detect_reversed_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = section_1.match_outputs
    assert section_1.every_instance(order=3, modulus=6, n=3, dtype="float64", seed=0)["wrong"] == 0
    monkeypatch.setattr(section_1, "match_outputs", lambda *args, **more: 1 - outputs(*args, **more))
    assert section_1.every_instance(order=3, modulus=6, n=3, dtype="float64", seed=0)["wrong"] > 0


def test_the_experiments_detect_all_negative_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_1, "match_labels", lambda x, *_: torch.zeros_like(x, dtype=torch.bool))
    long = section_1.long_instances(
        order=3, modulus=50, n=8, frequencies=1, dtype="float64", kind="adversarial", seed=0
    )
    assert long["wrong"] > 0
    assert section_1.disjointness(m=2, seed=0)["wrong"] > 0
