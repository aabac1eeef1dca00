"""The two lists of slips name errata of the ledger, and the estimate of the number that neither has."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from separatrix import studies
from separatrix.claims import PAPERS, readings
from separatrix.claims.errata import slips
from separatrix.claims.formulas import pieces
from separatrix.claims.ledger import Rank
from separatrix.claims.readings import Overlap, overlap, second_overlap, text_slips, unseen
from separatrix.report.typeset import mathml


@pytest.fixture(autouse=True)
def loaded() -> None:
    studies.load()


def test_the_papers_add_up() -> None:
    for lists in (overlap, second_overlap):
        parts = [lists(paper) for paper in PAPERS if slips(paper)]
        for name in ("first", "second", "both", "either"):
            assert sum(getattr(part, name) for part in parts) == getattr(lists(), name)


def test_every_erratum_and_every_slip_of_the_text_is_counted_once() -> None:
    """Every erratum is in a list, was known to the readers before, or was found later."""
    in_no_list = len(readings._names("told")) + sum(not slip.readings for slip in text_slips())
    assert second_overlap().either + in_no_list == len(slips()) + len(text_slips())
    assert {slip.readings for slip in text_slips()} == {(), (1,), (2,), (1, 2)}


@pytest.mark.parametrize("kind", ["told", "missed", "added", "missed_by_second"])
def test_an_erratum_that_the_ledger_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    changed = {**readings._read(), kind: [["selection/lemma-a.3", "nothing"]]}
    monkeypatch.setattr(readings, "_read", lambda: changed)
    with pytest.raises(ValueError, match=r"does not have: \[\('selection/lemma-a.3', 'nothing'\)\]"):
        second_overlap()


def test_the_slips_of_the_text_are_of_papers_and_can_be_typeset() -> None:
    slips_found = text_slips()
    assert {slip.paper for slip in slips_found} == {"kronecker", "separation", "selection"}
    assert {slip.rank for slip in slips_found} <= set(Rank)
    assert len({(slip.paper, slip.at, slip.printed) for slip in slips_found}) == len(slips_found)
    for slip in slips_found:
        for piece in (*pieces(slip.printed), *pieces(slip.right)):
            if piece.is_formula:
                assert mathml(piece.text)


@pytest.mark.parametrize(("slips_in_all", "first", "second"), [(10, 6, 5), (25, 20, 14), (40, 25, 30)])
def test_the_estimate_is_unbiased(slips_in_all: int, first: int, second: int) -> None:
    """Chapman's estimate has the right mean over the hypergeometric overlap of two random lists, if they are long."""
    mean = Fraction(0)
    for both in range(max(0, first + second - slips_in_all), min(first, second) + 1):
        ways = math.comb(first, both) * math.comb(slips_in_all - first, second - both)
        chance = Fraction(ways, math.comb(slips_in_all, second))
        mean += chance * (Fraction((first + 1) * (second + 1), both + 1) - 1)
        lists = Overlap(first, second, both)
        estimate = (first + 1) * (second + 1) / (both + 1) - 1 - lists.either
        left = unseen(lists)
        assert left.value == pytest.approx(max(estimate, 0), abs=1e-12)
        assert left.low <= left.value <= left.high
    assert mean == slips_in_all


def test_the_interval_covers_the_remaining_slips() -> None:
    """For 60 slips and independent lists of 40 and 45: the interval has 95% of the overlaps, to a few percent."""
    total, first, second = 60, 40, 45
    covered = Fraction(0)
    for both in range(first + second - total, first + 1):
        lists = Overlap(first, second, both)
        left = unseen(lists)
        chance = math.comb(first, both) * math.comb(total - first, second - both)
        if left.low <= total - lists.either <= left.high:
            covered += Fraction(chance, math.comb(total, second))
    assert 0.9 < covered < 0.99


def test_lists_that_agree_leave_nothing() -> None:
    assert unseen(Overlap(7, 12, 7)).high == 0.0
