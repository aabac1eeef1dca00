"""The claims on length generalisation as a curve: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import Found, Verdict
from separatrix.studies.selection import length
from tests.studies.cells import changed, claims_of, given, judged_as_recorded, run_cells

OURS = claims_of(length)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def ran(id: str) -> tuple[Found, ...]:
    return run_cells(OURS[id])


@pytest.mark.parametrize("id", OURS)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    judged_as_recorded(OURS[id])


def test_a_ratio_that_stayed_bounded_would_be_seen() -> None:
    id = "corollary-3.6/population-curve"
    found = ran(id)
    last = found[-1].result
    flat = [*last["ratios"][:-1], [x**2 for x in length._MULTIPLES]]
    assert OURS[id].check(changed(found, given(T1=1000), ratios=flat)).verdict is FAILS
    large = [[10 * loss for loss in row] for row in last["late"]]
    assert (
        OURS[id].check(changed(found, given(T1=1000), late=[[1e3 * x for x in row] for row in large])).verdict is FAILS
    )


def test_points_off_the_curve_would_be_seen() -> None:
    id = "corollary-e.9/as-a-curve"
    found = ran(id)
    trained = next(one for one in found if "loss" in one.result)
    off = [2 * loss for loss in trained.result["loss"]]
    assert OURS[id].check(changed(found, lambda one: "loss" in one.result, loss=off)).verdict is FAILS
    sampled = next(one for one in found if "mean" in one.result)
    assert (
        OURS[id].check(changed(found, lambda one: "mean" in one.result, of_mean=sampled.result["mean"])).verdict
        is FAILS
    )
