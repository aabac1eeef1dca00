"""The claims beyond the paper on softmax against linear: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.beyond import separation_learned, separation_mechanisms, separation_phase
from separatrix.claims.ledger import Found, Interval, Verdict
from separatrix.claims.verdicts import expected
from separatrix.errors import ArgumentError
from tests.claims.beyond_cells import changed, claims_of, given, run_cells

OURS = claims_of(separation_mechanisms, separation_phase, separation_learned)
QUICK = sorted(id for id, one in OURS.items() if one.profile == "quick")
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def ran(id: str) -> tuple[Found, ...]:
    return run_cells(OURS[id])


def test_eleven_claims_are_recorded() -> None:
    assert len(OURS) == 11
    assert {f"beyond/{id}" for id in OURS} <= expected().keys()
    assert {id for id, one in OURS.items() if one.profile == "full"} == {
        "learned-weights/attention-wider",
        "learned-weights/softmax-regression-longer",
    }


@pytest.mark.parametrize("id", QUICK)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    finding = OURS[id].check(ran(id))
    assert finding.verdict is expected()[f"beyond/{id}"], finding
    assert finding.numbers
    for value in finding.numbers.values():
        assert isinstance(value, float | int | str | Interval)


PAPERS, GROWS, TAU, REGRESSION = (
    f"other-mechanisms/{part}" for part in ("at-the-paper-s-sizes", "as-n-grows", "best-tau", "softmax-regression")
)
NARROW = {"setting": "cross-attention", "mechanism": "linear, identity"}


@pytest.mark.parametrize(
    ("id", "where", "to"),
    [
        (PAPERS, {"mechanism": "softmax"}, {"success": 0.5}),
        (PAPERS, {"mechanism": "softmax"}, {"papers_success": 0.5}),
        (PAPERS, {"mechanism": "order 3, values once"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "softmax, beta = 4"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "linear, relu"}, {"fires_on_d1": 0.4}),
        (PAPERS, {"mechanism": "linear, identity"}, {"success": 1e-9}),
        (PAPERS, {"mechanism": "linear, elu"}, {"success": 0.3}),
        (PAPERS, {"mechanism": "random features, 64"}, {"success": 0.3}),
        (GROWS, {"mechanism": "linear, taylor2", "n": 10**6}, {"separates": 1e-9}),
        (GROWS, {"mechanism": "softmax", "n": 10**9}, {"separates": 0.5}),
        (GROWS, {"mechanism": "order 3, values once", "n": 10**9}, {"separates": 0.5}),
        (TAU, {"mechanism": "softmax"}, {"best": [0.5] * 12}),
        (TAU, {"mechanism": "linear, elu"}, {"best": [0.5] * 12}),
        (TAU, {**NARROW, "n": 200}, {"best": [0.0] * 12}),
        (TAU, {**NARROW, "n": 20_000}, {"best": [0.2] * 8 + [0.0] * 4}),
        (REGRESSION, {"mechanism": "softmax"}, {"success": [0.8, 0.7, 0.9]}),
        (REGRESSION, {"mechanism": "linear, taylor2"}, {"success": [0.1, 0.05, 0.2]}),
        (REGRESSION, {"mechanism": "softmax, beta = 0.25"}, {"success": [0.5, 0.4, 0.6]}),
        (REGRESSION, {"mechanism": "order 3, values twice"}, {"success": [0.5, 0.4, 0.6]}),
        (REGRESSION, {"mechanism": "softmax, beta = 4"}, {"silent_on_d0": [1.0, 0.99, 1.0]}),
    ],
)
def test_another_mechanism_result_is_another_verdict(id: str, where: dict[str, Any], to: dict[str, Any]) -> None:
    assert OURS[id].check(changed(ran(id), given(**where), **to)).verdict is FAILS


SIGNAL, SIZE = "phase-diagram/a0-and-a1", "phase-diagram/n-and-d"


@pytest.mark.parametrize("entry", ["success", "edge", "at_edge", "before_edge", "linear_silent"])
def test_another_phase_over_signal_is_another_verdict(entry: str) -> None:
    found = ran(SIGNAL)
    columns = found[0].result["success"]
    other: dict[str, Any] = {
        "success": [[x + 0.01 * (i == 1) for x in column] for i, column in enumerate(columns)],
        "edge": [1.01] * len(columns),
        "at_edge": [0.4] * len(columns),
        "before_edge": [0.6] * len(columns),
        "linear_silent": [[1.0] * 50] * len(columns),
    }
    assert OURS[SIGNAL].check(changed(found, lambda one: True, **{entry: other[entry]})).verdict is FAILS


def test_an_edge_that_moves_early_is_another_verdict() -> None:
    found = ran(SIGNAL)
    edges = found[0].result["edge"]
    assert OURS[SIGNAL].check(changed(found, lambda one: True, edge=[*edges[:4], *[None] * 27])).verdict is FAILS


@pytest.mark.parametrize("entry", ["success", "edge"])
def test_another_phase_over_size_is_another_verdict(entry: str) -> None:
    found = ran(SIZE)
    high = given(level=separation_phase.HIGH)
    value = next(one for one in found if high(one)).result[entry]
    wider = [258 if i == len(value) - 1 else edge for i, edge in enumerate(value)]
    other = wider if entry == "edge" else [*value[:-1], [0.9] * 10]
    assert OURS[SIZE].check(changed(found, high, **{entry: other})).verdict is FAILS
    if entry == "edge":
        assert OURS[SIZE].check(changed(found, high, edge=[*value[:-1], None])).verdict is FAILS


ATTENTION, HAND, LEARNED_REGRESSION = (
    f"learned-weights/{part}" for part in ("attention", "by-hand", "softmax-regression")
)


@pytest.mark.parametrize(
    ("id", "where", "to"),
    [
        (ATTENTION, {"mechanism": "softmax", "trained": "y"}, {"held_out": [[1.0], [1.0], [0.7]]}),
        (ATTENTION, {"mechanism": "softmax", "trained": "y"}, {"held_out": [[0.9], [1.0], [1.0]]}),
        (ATTENTION, {"mechanism": "linear", "trained": "y"}, {"held_out": [[0.5], [0.5], [0.5]]}),
        (ATTENTION, {"mechanism": "linear", "trained": "y"}, {"held_out": [[1.0], [1.0], [1.0]]}),
        (HAND, {"mechanism": "linear"}, {"K": None}),
        (HAND, {"mechanism": "linear", "n": 200_000}, {"least": 90.0}),
        (HAND, {"mechanism": "softmax", "n": 200_000}, {"least": 90.0}),
        (LEARNED_REGRESSION, {"mechanism": "softmax"}, {"held_out": [0.9]}),
        (LEARNED_REGRESSION, {"mechanism": "linear"}, {"held_out": [0.9]}),
    ],
)
def test_another_training_is_another_verdict(id: str, where: dict[str, Any], to: dict[str, Any]) -> None:
    assert OURS[id].check(changed(ran(id), given(**where), **to)).verdict is FAILS


def test_the_longer_runs_ask_the_same_of_more() -> None:
    for id, longer in ((ATTENTION, "attention-wider"), (LEARNED_REGRESSION, "softmax-regression-longer")):
        short, long = (list(OURS[name].cells()) for name in (id, f"learned-weights/{longer}"))
        assert [cell.experiment for cell in short] == [cell.experiment for cell in long]
        assert all(one.arguments["n"] < other.arguments["n"] for one, other in zip(short, long, strict=True))
        assert OURS[f"learned-weights/{longer}"].check(ran(id)).verdict is HOLDS


def test_names_are_checked() -> None:
    with pytest.raises(ArgumentError, match="mechanism"):
        separation_mechanisms.mechanism_of("hard attention", 0)
    with pytest.raises(ArgumentError, match="setting"):
        separation_phase.setting_of("convolution", 8, 2, 1, 0)
    with pytest.raises(ArgumentError, match="setting"):
        separation_learned.setting_of("convolution", 8, 2)
