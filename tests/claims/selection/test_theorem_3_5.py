"""Tests of Theorem 3.5 in addition to the tests of all claims."""

from __future__ import annotations

from dataclasses import replace

from separatrix.claims.ledger import CellResult
from separatrix.claims.selection import theorem_3_5
from tests.claims.cells import shortened
from tests.claims.changes import FAILS, HOLDS


def test_the_transformer_must_go_below_the_nets_with_fewer_parameters() -> None:
    """After twenty steps the transformer has learned nothing, but the statement about the nets is true."""
    cells = shortened("selection/theorem-3.5/trained-nets")
    check = theorem_3_5.theorem_3_5_trained.check

    def with_transformer(**to: float) -> list[CellResult]:
        return [replace(cell, result={**cell.result, **to}) if "width" in cell.result else cell for cell in cells]

    assert check(cells).verdict is FAILS
    assert check(with_transformer(squared_error=0.002)).verdict is HOLDS
    assert check(with_transformer(squared_error=0.002), part=0.01).verdict is FAILS
    assert check(with_transformer(squared_error=0.002, parameters=6071)).verdict is FAILS


def test_trained_nets_may_come_near_the_infimum() -> None:
    """The error of a net near the infimum exceeds the infimum, by less than a twentieth."""
    cells = [
        replace(cell, result={**cell.result, "squared_error": cell.result["floor"], "standard_error": 0.005})
        if "floor" in cell.result
        else cell
        for cell in shortened("selection/theorem-3.5/trained-nets")
    ]
    assert theorem_3_5._judged(cells, 0, 1).verdict is HOLDS
    assert theorem_3_5._judged(cells, 0, 1, 1.05).verdict is FAILS
