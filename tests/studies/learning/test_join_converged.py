"""The verdict on two layers of order 2 with enough steps depends on the final accuracy."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import join_converged
from separatrix.studies.learning.join import TWO


def runs(*ends: float) -> list[CellResult]:
    """A run for each seed, with accuracy 0.5 at a quarter of the steps and these final accuracies."""
    return [
        CellResult({"attention": TWO, "steps": 8, "compute_steps": 5}, seed, {"step": [2, 8], "accuracy": [0.5, end]})
        for seed, end in enumerate(ends, 1)
    ]


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0.98, 0.99, 1.0), Verdict.HOLDS),
        ((0.6, 0.61, 0.62), Verdict.FAILS_AS_PRINTED),
        ((0.6, 1.0, 1.0), Verdict.UNDECIDED),
    ],
)
def test_the_accuracy_at_the_end_decides(ends, verdict) -> None:
    finding = join_converged.joins_converged.check(runs(*ends))
    assert finding.verdict is verdict
    assert str(finding.numbers["first record with an accuracy above 0.9, by seed"]).split("; ") == [
        "8" if end > 0.9 else "none" for end in ends
    ]


def test_the_neighbour_is_that_errors_remain() -> None:
    check = join_converged.joins_converged.check
    assert check(runs(1.0, 1.0, 1.0), turned=True, bound=0.99).verdict is Verdict.FAILS_AS_PRINTED
    assert check(runs(0.97, 0.975, 0.98), turned=True, bound=0.99).verdict is Verdict.HOLDS


def test_the_cells_differ_from_those_of_the_first_study_in_rate_and_steps_alone() -> None:
    cells = list(join_converged.joins_converged.cells())
    assert [cell.seed for cell in cells] == [1, 2, 3]
    assert {(cell.arguments["lr"], cell.arguments["steps"], cell.arguments["attention"]) for cell in cells} == {
        (0.002, 3000, TWO)
    }
