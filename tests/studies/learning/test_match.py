"""The claim on planted triples: each of its three leads decides it."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import match

ENDS = {"order 2": 0.5, "order 3, R = 0.5": 0.6, "order 3, R = 4": 0.8, "order 3": 0.9}


def runs(ends: dict[str, float]) -> list[CellResult]:
    """Results of three seeds of each attention: nearly these accuracies at equal steps."""
    return [
        CellResult(
            {"attention": name, "steps": 8, "compute_steps": 9},
            seed,
            {"step": [8, 9], "accuracy": [end + 0.01 * seed, 0.5], "parameters": 100, "step_flops": 1.0},
        )
        for name, end in ends.items()
        for seed in (1, 2, 3)
    ]


def test_it_holds_when_every_lead_is_as_expected() -> None:
    assert match.match_all.check(runs(ENDS)).verdict is Verdict.HOLDS


@pytest.mark.parametrize(("name", "end"), [("order 3", 0.4), ("order 3, R = 4", 0.55), ("order 3, R = 0.5", 0.85)])
def test_it_fails_if_one_lead_is_reversed(name: str, end: float) -> None:
    assert match.match_all.check(runs({**ENDS, name: end})).verdict is Verdict.FAILS_AS_PRINTED
