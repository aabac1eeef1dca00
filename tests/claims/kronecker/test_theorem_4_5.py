"""Theorem 4.5: the recorded verdict, and what would change it."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.kronecker import theorem_4_5
from separatrix.hardness.protocol import Protocol
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestTheorem45(ClaimContract):
    module = theorem_4_5
    mutants = (
        ("theorem-4.5", {"completeness": "5/6"}, FAILS),
        ("theorem-4.5", {"worst": "1"}, FAILS),
    )
    worlds = (("theorem-4.5", {"worst": "1/2", "distance": "1/2"}, UNDECIDED),)


def test_the_experiment_sees_a_word_that_is_not_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "admissible", lambda self, word: not any(word[: self.r]))
    monkeypatch.setattr(theorem_4_5, "best_cheat", lambda made, *sets: _unchecked(made, sets))
    assert theorem_4_5.soundness(m=4, parts=2, length=6, seed=0)["worst"] == "5/6"


def _unchecked(made: Protocol, sets: Any) -> Any:
    """A word that lies at one place alone; it is not in C'."""
    mu = list(made.honest(*sets))
    mu[: made.r] = [0] * made.r
    word = tuple(mu)
    return type("Cheat", (), {"word": word, "acceptance": made.acceptance(*sets, word)})
