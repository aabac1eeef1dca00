"""Misprints that cells measure by pairs of numbers, as printed and corrected."""

from __future__ import annotations

from separatrix.claims.ledger import CellResult, Erratum, Rank, Verdict
from separatrix.claims.misprint_pairs import compared

ERRATA = (Erratum("x", "y", "z", shown_by="a", rank=Rank.PROOF),)
CELLS = [CellResult({}, 0, {"a": [1.0, -1.0]}), CellResult({}, 0, {"a": [-1.0, 0.0]}), CellResult({}, 0, {"b": 1})]


def test_the_worst_of_all_cells_counts() -> None:
    finding = compared(CELLS, ERRATA)
    assert finding.verdict is Verdict.HOLDS
    assert finding.shows == {"a": True}
    assert compared([*CELLS, CellResult({}, 0, {"a": [-1.0, 1e-6]})], ERRATA).verdict is Verdict.FAILS_AS_PRINTED
    assert compared(CELLS[1:], ERRATA).shows == {"a": False}


def test_further_conditions_must_hold() -> None:
    assert compared(CELLS, ERRATA, held=False).verdict is Verdict.FAILS_AS_PRINTED
