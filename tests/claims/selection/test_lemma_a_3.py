"""Tests of Lemma A.3 in addition to the tests of all claims."""

from __future__ import annotations

import pytest

from separatrix.claims.selection import lemma_a_3
from separatrix.errors import ArgumentError


def test_the_oblique_encoding_is_refused_if_it_does_not_exist() -> None:
    with pytest.raises(ArgumentError, match="a power of 2, at least q"):
        lemma_a_3.leaning(3, 12)


def test_the_experiment_detects_a_code_that_is_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    code = lemma_a_3.subset_code
    monkeypatch.setattr(lemma_a_3, "subset_code", lambda E, y: 0.9 * code(E, y))
    assert lemma_a_3.subset_codes(kind="random", T=9, q=2, width=512, seed=1)["inside"] > 0.05
