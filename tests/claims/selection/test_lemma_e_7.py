"""Lemma E.7: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import lemma_e_7
from tests.claims.selection.pairs import PairsContract
from tests.contracts.claim_contract import FAILS


class TestLemmaE7(PairsContract):
    module = lemma_e_7
    pairs = "lemma-e.7"
    mutants = (
        ("lemma-e.7", {"strays": 1e-3}, FAILS),
        ("lemma-e.7", {"moved": 9.0}, FAILS),
    )


def test_the_experiment_sees_a_code_that_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code that is shifted by one fixed vector lets the gradient leave the lemma's directions."""
    code = lemma_e_7.codes
    monkeypatch.setattr(lemma_e_7, "codes", lambda stack, subset: code(stack, subset) + 0.1)
    assert lemma_e_7.stochastic_step(T=3, q=2, width=4, d=1, alpha=0.9, C=1.0, seed=0)["strays"] > 1e-4
