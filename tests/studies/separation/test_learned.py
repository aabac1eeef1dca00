"""The claims on learned weights: their verdicts, and results that change them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.errors import ArgumentError
from separatrix.studies.separation import learned
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(learned)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


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


def test_the_longer_runs_have_the_same_rule() -> None:
    short, long = (list(OURS[name].cells()) for name in (ATTENTION, "learned-weights/attention-wider"))
    assert [cell.experiment for cell in short] == [cell.experiment for cell in long]
    assert all(cell.arguments["n"] < other.arguments["n"] for cell, other in zip(short, long, strict=True))
    assert OURS["learned-weights/attention-wider"].check(ran(ATTENTION)).verdict is HOLDS


@pytest.mark.parametrize(
    ("held_out", "verdict", "turned"),
    [
        ([0.49, 0.5425, 0.555, 0.5175, 0.5225], HOLDS, FAILS),
        ([0.74, 0.73, 0.74, 0.73, 0.74], FAILS, HOLDS),
        ([0.59, 0.59, 0.59, 0.59, 0.59], Verdict.UNDECIDED, FAILS),
        ([0.6, 0.6, 0.6, 0.6, 0.6], FAILS, Verdict.UNDECIDED),
    ],
)
def test_the_longer_regression_is_compared_with_the_shorter(
    held_out: list[float], verdict: Verdict, turned: Verdict
) -> None:
    """The shorter runs, and longer ones whose linear attention is nearer to guessing, farther from it, or neither.

    The first results are those of the recorded verdict.
    """
    longer = OURS["learned-weights/softmax-regression-longer"]
    short = ran(LEARNED_REGRESSION)
    assert {cell.arguments["n"] for cell in longer.cells()} == {100, 300}
    long = [
        replace(
            cell,
            parameters={**cell.parameters, "n": 300},
            result={**cell.result, "held_out": held_out} if cell.parameters["mechanism"] == "linear" else cell.result,
        )
        for cell in short
    ]
    assert longer.check([*long, *short]).verdict is verdict
    assert longer.check([*long, *short], nearer=False).verdict is turned
    if verdict is HOLDS:
        assert longer.check([*long, *short], times=3.4).verdict is FAILS
        assert longer.judged([*long, *short]).verdict is HOLDS


def test_the_name_of_a_setting_is_checked() -> None:
    with pytest.raises(ArgumentError, match="setting"):
        learned.setting_of("convolution", 8, 2)
