"""Claims of the full profile on the results of their runs: the recorded verdict, and every wrong neighbour rejected."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.claims.verdicts import expected
from separatrix.studies.learning.tasks.import_graph import RECORDED_GRAPH
from tests.claims.full_runs import evidence, full_claims, kept

KEPT = kept()
CLAIMS = full_claims()
TEXT = "55f2a26a44b7cc28aee45af941a72cfa4caa9f0379cca6a2e9cafd658a09116c"
"""The hash of the training text of the recorded runs, the documentation of Python 3.11.7."""


@pytest.mark.parametrize("id", CLAIMS)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    cells = evidence(CLAIMS[id], KEPT)
    needed = [cell.arguments for cell in CLAIMS[id].cells()]
    if cells is None and any(
        cell.get("text", TEXT) != TEXT or cell.get("graph", RECORDED_GRAPH) != RECORDED_GRAPH for cell in needed
    ):
        pytest.skip("the runs learned the documentation or the imports of another Python than this one")
    assert cells is not None, "there are cells whose runs are not kept: `python -m tests.claims.full_runs` adds them"
    finding = CLAIMS[id].judged(cells)
    assert finding.verdict is expected()[id], finding
    if finding.verdict is Verdict.UNDECIDED:  # on results that do not support the claim, no neighbour may hold
        beside = [CLAIMS[id].check(cells, **other.constants).verdict for other in CLAIMS[id].neighbours]
        assert Verdict.HOLDS not in beside
        return
    assert {f"rejected: {other.says}" for other in CLAIMS[id].neighbours} <= finding.numbers.keys()
