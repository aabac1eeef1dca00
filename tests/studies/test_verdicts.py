"""The claims of the studies: all are recorded and drawn, and those that run here have their recorded verdicts."""

from __future__ import annotations

import pytest

from separatrix import studies
from separatrix.claims import ledger
from separatrix.claims.ledger import Interval
from separatrix.studies.learning import join, language_model
from separatrix.studies.selection import attention, fixed, length, positions, times
from separatrix.studies.separation import border, learned, mechanisms, phase
from tests.claims.cells import recorded
from tests.studies.cells import claims_of, run_cells

studies.load()
OURS = [claim for claim in ledger._REGISTRY.values() if claim.paper == "beyond"]
RUN_HERE = {
    id: claim
    for id, claim in claims_of(
        join, language_model, attention, fixed, length, positions, times, border, learned, mechanisms, phase
    ).items()
    if claim.profile == "quick"
}


def test_every_claim_is_recorded_and_has_a_figure() -> None:
    assert len(OURS) > 80
    for claim in OURS:
        assert claim.id in recorded()
        assert claim.figures, claim.id
        assert not claim.errata, claim.id


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("id", RUN_HERE)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    """If the claim is decided, its check rejects every wrong neighbour: otherwise it would be undecided."""
    finding = RUN_HERE[id].judged(run_cells(RUN_HERE[id]))
    assert finding.verdict is recorded()[RUN_HERE[id].id], finding
    assert len(finding.numbers) > 2
    assert all(isinstance(value, float | int | str | Interval) for value in finding.numbers.values())
