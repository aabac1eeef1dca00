"""Figure 8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import figure_8
from tests.claims.cells import shortened
from tests.contracts.claim_contract import CORRECTED, FAILS, HOLDS, UNDECIDED, ClaimContract


class TestFigure8(ClaimContract):
    module = figure_8
    mutants = (
        ("figure-8/first-1-000-steps", {"cosine_V": [0.0, 0.5]}, FAILS),
        ("figure-8/first-1-000-steps", {"off_W": [1.0, 0.5]}, FAILS),
        ("figure-8/first-1-000-steps", {"moved": 0.1}, UNDECIDED),
        ("figure-8/first-1-000-steps", {"stopped": "The run diverged."}, UNDECIDED),
    )


def test_the_whole_run_runs() -> None:
    """With few steps nothing is learnt, and the check says so instead of breaking."""
    finding = figure_8.figure_8.judged(shortened("selection/figure-8"))
    assert finding.verdict in (FAILS, HOLDS, CORRECTED)
    assert finding.numbers
