"""The claims on length generalisation as a curve: their verdicts, and results that change them."""

from __future__ import annotations

from separatrix.claims.ledger import Verdict
from separatrix.studies.selection import length
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(length)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def test_a_ratio_that_stayed_bounded_would_be_detected() -> None:
    id = "corollary-3.6/population-curve"
    cells = ran(id)
    last = cells[-1].result
    flat = [*last["ratios"][:-1], [x**2 for x in length._MULTIPLES]]
    assert OURS[id].check(changed(cells, given(T1=1000), ratios=flat)).verdict is FAILS
    large = [[10 * loss for loss in row] for row in last["late"]]
    assert (
        OURS[id].check(changed(cells, given(T1=1000), late=[[1e3 * x for x in row] for row in large])).verdict is FAILS
    )


def test_points_off_the_curve_would_be_detected() -> None:
    id = "corollary-e.9/as-a-curve"
    cells = ran(id)
    trained = next(cell for cell in cells if "loss" in cell.result)
    off = [2 * loss for loss in trained.result["loss"]]
    assert OURS[id].check(changed(cells, lambda cell: "loss" in cell.result, loss=off)).verdict is FAILS
    sampled = next(cell for cell in cells if "mean" in cell.result)
    assert (
        OURS[id].check(changed(cells, lambda cell: "mean" in cell.result, of_mean=sampled.result["mean"])).verdict
        is FAILS
    )
