"""The claims on recall: the construction is never wrong, and a wrong answer would be detected."""

from __future__ import annotations

from separatrix.claims.ledger import Verdict
from separatrix.claims.verdicts import expected
from separatrix.studies.learning import recall
from tests.studies.cells import changed, claims_of, given, run_cells

OURS = claims_of(recall)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def test_recall_by_hand_is_recorded_and_detects_a_wrong_answer() -> None:
    claim = OURS["does-it-learn/recall-by-hand"]
    cells = run_cells(claim)
    assert claim.check(cells).verdict is expected()[claim.id] is HOLDS
    assert claim.check(changed(cells, given(order=4), by_one_head=1)).verdict is FAILS
    assert claim.check(changed(cells, given(order=3), by_two_hops=1)).verdict is FAILS
