"""Figure 8: the recorded verdict, and what would change it."""

from __future__ import annotations

from separatrix.claims.selection import figure_8
from tests.claims.cells import shortened
from tests.contracts.claim_contract import HOLDS, NOT_REPRODUCED, UNDECIDED, ClaimContract


class TestFigure8(ClaimContract):
    module = figure_8
    mutants = (
        ("figure-8/first-1-000-steps", {"cosine_V": [0.0, 0.5]}, NOT_REPRODUCED),
        ("figure-8/first-1-000-steps", {"off_W": [1.0, 0.5]}, NOT_REPRODUCED),
        ("figure-8/first-1-000-steps", {"kept": 1.0}, NOT_REPRODUCED),
        ("figure-8/first-1-000-steps", {"stopped": "The run diverged."}, UNDECIDED),
    )

    def test_the_first_columns_stay_unless_every_example_has_its_own_token(self) -> None:
        kept = {one.parameters["query"]: one.result["kept"] for one in self.found("figure-8/first-1-000-steps")}
        assert kept["zero"] == 1.0
        assert 0.9 < kept["fixed"] < 1.0
        assert kept["drawn"] < 0.1


def test_the_whole_run_runs() -> None:
    """With few steps nothing is learnt, and the check says so instead of breaking."""
    finding = figure_8.figure_8.judged(shortened("selection/figure-8"))
    assert finding.verdict in (NOT_REPRODUCED, HOLDS, UNDECIDED)
    assert finding.numbers
