"""The claims beyond the paper on token selection: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

import pytest

from separatrix.claims.beyond import selection_attention, selection_fixed, selection_length, selection_positions
from separatrix.claims.ledger import Found, Interval, Verdict
from separatrix.claims.verdicts import expected
from tests.claims.beyond_cells import changed, claims_of, given, run_cells

OURS = claims_of(selection_attention, selection_fixed, selection_length, selection_positions)
QUICK = sorted(id for id, one in OURS.items() if one.profile == "quick")
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def ran(id: str) -> tuple[Found, ...]:
    return run_cells(OURS[id])


def test_there_are_seven_quick_claims_and_five_full_ones() -> None:
    assert (len(QUICK), len(OURS)) == (7, 12)
    assert all(one.figures and not one.errata for one in OURS.values())


def test_every_claim_is_recorded() -> None:
    recorded = expected()
    assert all(f"beyond/{id}" in recorded for id in OURS)


@pytest.mark.parametrize("id", QUICK)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = OURS[id].check(ran(id))
    assert finding.verdict is expected()[f"beyond/{id}"], finding
    assert len(finding.numbers) > 2


@pytest.mark.parametrize("name", ["softmax W", "softmax QK", "relu", "taylor2"])
def test_an_attention_that_did_not_learn_would_be_seen(name: str) -> None:
    id = "token-selection/attention-one-hot-positions"
    assert OURS[id].check(changed(ran(id), given(attention=name), final=0.2)).verdict is FAILS


def test_an_identity_map_that_trained_would_be_seen() -> None:
    id = "token-selection/attention-one-hot-positions"
    found = changed(ran(id), given(attention="identity"), stopped=None, final=0.5)
    assert OURS[id].check(found).verdict is FAILS


@pytest.mark.parametrize("name", ["elu", "relu", "random_positive", "order 3", "taylor2", "order 3 biased"])
def test_a_better_attention_would_be_seen(name: str) -> None:
    id = "token-selection/attention-fresh-encodings"
    assert OURS[id].check(changed(ran(id), given(attention=name), final=0.01)).verdict is FAILS


def test_factors_that_left_the_plateau_would_be_seen() -> None:
    id = "token-selection/q-and-k-against-w"
    stuck = given(attention="softmax QK", initial="zero")
    assert OURS[id].check(changed(ran(id), stuck, final=0.5)).verdict is FAILS
    assert OURS[id].check(changed(ran(id), given(attention="softmax W", initial="zero"), final=1.1)).verdict is FAILS


@pytest.mark.parametrize("kind", ["fixed", "rotary", "learned"])
def test_an_encoding_that_generalised_would_be_seen(kind: str) -> None:
    id = "token-selection/positions-and-length"
    found = ran(id)
    assert (
        OURS[id].check(changed(found, given(encoding=kind), at_length={"25": 0.1, "30": 0.1, "40": 0.1})).verdict
        is FAILS
    )


def test_the_rate_of_the_least_mean_is_chosen_and_a_stopped_run_never() -> None:
    def made(name: str, lr: float, seed: int, final: float | None) -> Found:
        return Found({"attention": name, "lr": lr}, seed, {"final": final})

    found = [made("relu", 0.1, 0, 0.3), made("relu", 0.1, 1, 0.5), made("relu", 0.2, 0, 0.1), made("relu", 0.2, 1, 0.9)]
    found += [made("elu", 0.1, 0, None), made("elu", 0.2, 0, 3.0)]
    chosen = selection_attention.best(found)
    assert [one.result["final"] for one in chosen["relu"]] == [0.3, 0.5]
    assert [one.result["final"] for one in chosen["elu"]] == [3.0]
    assert selection_attention.summary([made("elu", 0.1, 0, None)] * 3) == "stopped in 3 of 3 seeds"


def test_the_interval_of_five_seeds_is_students_on_the_logarithm() -> None:
    """By hand: logarithms -2, -1, 0, 1, 2 have mean 0 and deviation sqrt(2.5); 2.776 sqrt(2.5/5) = 1.963."""
    losses = [2.718281828459045**k * selection_attention.ZERO for k in (-2, -1, 0, 1, 2)]
    interval = selection_attention.summary([Found({}, 0, {"final": loss}) for loss in losses])
    assert isinstance(interval, Interval)
    assert interval.value == pytest.approx(1.0, rel=1e-12)
    assert interval.high == pytest.approx(2.718281828459045**1.96293, rel=1e-4)
    assert interval.low * interval.high == pytest.approx(1.0, rel=1e-12)


def test_a_ratio_that_stayed_bounded_would_be_seen() -> None:
    id = "corollary-3.6/population-curve"
    found = ran(id)
    last = found[-1].result
    flat = [*last["ratios"][:-1], [x**2 for x in selection_length._MULTIPLES]]
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


def test_a_bad_encoding_would_be_seen() -> None:
    id = "appendix-e.6/one-encoding-for-all"
    found = ran(id)
    each = list(found[0].result["each"])
    assert OURS[id].check(changed(found, given(width=170), each=[*each[:-1], 1.5 * each[-1]])).verdict is FAILS
    assert OURS[id].check(changed(found, given(width=170), of_mean=2 * max(each))).verdict is FAILS


def test_the_trained_check_of_fixed_encodings() -> None:
    """On made results: fixed encodings near the fresh loss hold, one at twice it does not."""

    def made(fixed: list[float]) -> Found:
        return Found({}, 0, {"loss": [0.001], "error": [1e-5], "fixed": fixed, "fixed_error": [1e-5] * len(fixed)})

    check = OURS["appendix-e.6/one-encoding-for-all-trained"].check
    assert check([made([0.0009, 0.0011])]).verdict is HOLDS
    assert check([made([0.0009, 0.002])]).verdict is FAILS
