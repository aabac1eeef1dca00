"""Tests of Lemma E.7 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import lemma_e_7, valid_encodings


def test_the_experiment_detects_a_code_that_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subset code with one fixed vector added makes the gradient leave the lemma's directions."""
    code = valid_encodings.codes
    monkeypatch.setattr(valid_encodings, "codes", lambda stack, subset: code(stack, subset) + 0.1)
    assert lemma_e_7.stochastic_step(T=3, q=2, width=4, d=1, alpha=0.9, C=1.0, seed=0)["strays"] > 1e-4
