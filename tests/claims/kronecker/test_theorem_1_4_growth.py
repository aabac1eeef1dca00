"""Theorem 1.4: flops that grow because the rank does are not judged."""

from __future__ import annotations

from dataclasses import replace

from separatrix.claims.ledger import Verdict
from tests.claims.cells import ran
from tests.claims.changes import judge


def test_a_rank_that_changes_with_n_is_not_judged() -> None:
    id = "kronecker/theorem-1.4/linear-growth"
    last = [cell for cell in ran(id) if "counted_flops" in cell.result][-1]
    scaled = {name: 2 * last.result[name] for name in ("rank", "counted_flops", "planned_flops", "state_bytes")}
    results = [replace(cell, result={**cell.result, **scaled}) if cell is last else cell for cell in ran(id)]
    assert judge(id, results) is Verdict.UNDECIDED
