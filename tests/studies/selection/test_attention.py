"""The claims on which attention learns token selection: their verdicts, and results that change them."""

from __future__ import annotations

import pytest

from separatrix.claims.ledger import CellResult, Interval, Verdict
from separatrix.studies.selection import attention
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(attention)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


@pytest.mark.parametrize("name", ["softmax W", "softmax QK", "relu", "taylor2"])
def test_an_attention_that_did_not_learn_would_be_detected(name: str) -> None:
    id = "token-selection/attention-one-hot-positions"
    assert OURS[id].check(changed(ran(id), given(attention=name), final=0.2)).verdict is FAILS


def test_an_identity_map_that_trained_would_be_detected() -> None:
    id = "token-selection/attention-one-hot-positions"
    cells = changed(ran(id), given(attention="identity"), stopped=None, final=0.5)
    assert OURS[id].check(cells).verdict is FAILS


@pytest.mark.parametrize("name", ["elu", "relu", "random_positive", "order 3", "taylor2", "order 3 biased"])
def test_a_better_attention_would_be_detected(name: str) -> None:
    id = "token-selection/attention-fresh-encodings"
    assert OURS[id].check(changed(ran(id), given(attention=name), final=0.01)).verdict is FAILS


def test_factors_that_left_the_plateau_would_be_detected() -> None:
    id = "token-selection/q-and-k-against-w"
    stuck = given(attention="softmax QK", initial="zero")
    assert OURS[id].check(changed(ran(id), stuck, final=0.5)).verdict is FAILS
    assert OURS[id].check(changed(ran(id), given(attention="softmax W", initial="zero"), final=1.1)).verdict is FAILS


def test_the_rate_of_the_least_mean_is_chosen_and_a_stopped_run_never() -> None:
    def made(name: str, lr: float, seed: int, final: float | None) -> CellResult:
        return CellResult({"attention": name, "lr": lr}, seed, {"final": final})

    cells = [made("relu", 0.1, 0, 0.3), made("relu", 0.1, 1, 0.5), made("relu", 0.2, 0, 0.1), made("relu", 0.2, 1, 0.9)]
    cells += [made("elu", 0.1, 0, None), made("elu", 0.2, 0, 3.0)]
    chosen = attention.best(cells)
    assert [cell.result["final"] for cell in chosen["relu"]] == [0.3, 0.5]
    assert [cell.result["final"] for cell in chosen["elu"]] == [3.0]
    assert attention.summary([made("elu", 0.1, 0, None)] * 3) == "stopped in 3 of 3 seeds"


def test_the_interval_of_five_seeds_is_students_on_the_logarithm() -> None:
    """By hand: logarithms -2, -1, 0, 1, 2 have mean 0 and deviation sqrt(2.5); 2.776 sqrt(2.5/5) = 1.963."""
    losses = [2.718281828459045**k * attention.ZERO for k in (-2, -1, 0, 1, 2)]
    interval = attention.summary([CellResult({}, 0, {"final": loss}) for loss in losses])
    assert isinstance(interval, Interval)
    assert interval.value == pytest.approx(1.0, rel=1e-12)
    assert interval.high == pytest.approx(2.718281828459045**1.96293, rel=1e-4)
    assert interval.low * interval.high == pytest.approx(1.0, rel=1e-12)
