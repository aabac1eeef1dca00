"""Tests of Theorem 4.5 in addition to the tests of all claims."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.kronecker import theorem_4_5
from separatrix.hardness.protocol import Protocol


def test_the_experiment_detects_a_word_outside_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "admissible", lambda self, word: not any(word[: self.r]))
    monkeypatch.setattr(theorem_4_5, "best_cheat", lambda made, *sets: _unchecked(made, sets))
    assert theorem_4_5.soundness(m=4, parts=2, length=6, seed=0)["worst"] == "5/6"


def _unchecked(made: Protocol, sets: Any) -> Any:
    """A word that is wrong at one place only; it is not in C'."""
    mu = list(made.honest(*sets))
    mu[: made.r] = [0] * made.r
    word = tuple(mu)
    return type("Cheat", (), {"word": word, "acceptance": made.acceptance(*sets, word)})
