"""The errata: each slip is listed once, with one rank; and the most important ones."""

from __future__ import annotations

import pytest

from separatrix import studies
from separatrix.claims.errata import FIRST, first_slips, slips
from separatrix.claims.ledger import RANKS, Erratum, Rank, claims
from tests.claims.declared import declare


def wrong(printed: str = "n", *, slip: str = "", shown_by: str = "a", rank: Rank = Rank.PROOF) -> Erratum:
    return Erratum(printed, "n + 1", "one too few", shown_by=shown_by, rank=rank, slip=slip)


def test_a_rank_is_required() -> None:
    with pytest.raises(TypeError, match="rank"):
        Erratum("n", "n + 1", "one too few", "n is too few")  # type: ignore[call-arg]
    assert [str(rank) for rank in Rank] == ["changes a statement", "repairs a proof", "typographical"]
    assert list(RANKS) == list(Rank)


def test_a_slip_is_counted_once_in_a_paper(empty) -> None:
    declare("Lemma 1", errata=[wrong(), wrong("m", shown_by="b", slip="off by one")])
    declare("Lemma 2", errata=[wrong(shown_by="c"), wrong("k", shown_by="d", slip="off by one")])
    declare("Lemma 1", paper="selection", errata=[wrong()])
    assert [[claim.where for claim, _ in slip.places] for slip in slips("kronecker")] == [["Lemma 1", "Lemma 2"]] * 2
    assert len(slips()) == 3
    assert [slip.name for slip in slips("selection")] == [("selection/lemma-1", "a")]


def test_the_slips_of_the_papers() -> None:
    """Every erratum is in one slip, and a slip has one rank; fifteen of them are the most important."""
    studies.load()
    slips_found = slips()
    assert sum(len(slip.places) for slip in slips_found) == sum(len(claim.errata) for claim in claims())
    assert all({erratum.rank for _, erratum in slip.places} == {slip.rank} for slip in slips_found)
    first = [slip.name for slip in first_slips()]
    assert len(FIRST) == len(set(first)) == 15
    assert set(first) <= {slip.name for slip in slips_found}
    assert all(slip.rank is not Rank.TYPOGRAPHICAL for slip in first_slips())


def test_a_slip_has_a_name_only_where_it_is_repeated() -> None:
    studies.load()
    for slip in slips():
        for _, erratum in slip.places:
            assert not erratum.slip or len(slip.places) > 1, erratum.slip
