"""Lemma E.1: the recorded verdict, and what would change it."""

from __future__ import annotations

import pytest

from separatrix.claims.kronecker import lemma_e_1
from tests.contracts.claim_contract import FAILS, UNDECIDED, ClaimContract


class TestLemmaE1(ClaimContract):
    module = lemma_e_1
    mutants = (
        ("lemma-e.1", {"mismatches": 1}, FAILS),
        ("lemma-e.1", {"columns": 10**9}, FAILS),
        ("lemma-e.1", {"needed": 0}, FAILS),
        ("lemma-e.1/proof", {"mismatches": 2}, FAILS),
    )
    worlds = (("lemma-e.1/proof", {"printed_mismatches": 0}, UNDECIDED),)


def test_the_experiment_sees_coefficients_without_multinomials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma_e_1, "_multinomial", lambda alpha: 1)
    assert lemma_e_1.low_rank(d=2, degree=2, seed=0)["mismatches"] > 0
