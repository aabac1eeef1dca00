"""The figures of the claims: each figure exists, and each is named by a claim."""

from __future__ import annotations

import pytest

from separatrix.claims import ledger
from separatrix.claims.verdicts import expected
from separatrix.errors import ArgumentError
from separatrix.report.figures import FIGURES, draw
from separatrix.report.highlights import HIGHLIGHTS
from separatrix.studies import load

load()
CLAIMS = dict(ledger._REGISTRY)


def test_every_figure_that_a_claim_names_exists_and_every_one_is_named() -> None:
    assert {name for claim in CLAIMS.values() for name in claim.figures} == set(FIGURES)


def test_an_unknown_figure_is_an_error_that_names_the_others() -> None:
    with pytest.raises(ArgumentError, match=r"sharp_rank.*got 'nothing'"):
        draw("nothing", [])


def test_every_highlight_names_a_claim_of_a_quick_run_and_one_of_its_figures() -> None:
    assert len(HIGHLIGHTS) == 5
    for highlight in HIGHLIGHTS:
        claim = CLAIMS[highlight.claim]
        assert highlight.figure in claim.figures
        assert (expected()[highlight.claim], claim.profile) == (highlight.verdict, "quick")
