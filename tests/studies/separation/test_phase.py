"""The claims on phase diagrams: their verdicts, and that each check can come out otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import Found, Verdict
from separatrix.errors import ArgumentError
from separatrix.studies.separation import phase
from tests.studies.cells import changed, claims_of, given, judged_as_recorded, run_cells

OURS = claims_of(phase)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


def ran(id: str) -> tuple[Found, ...]:
    return run_cells(OURS[id])


@pytest.mark.parametrize("id", OURS)
def test_the_verdict_is_the_recorded_one(id: str) -> None:
    judged_as_recorded(OURS[id])


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
    high = given(level=phase.HIGH)
    value = next(one for one in found if high(one)).result[entry]
    wider = [258 if i == len(value) - 1 else edge for i, edge in enumerate(value)]
    other = wider if entry == "edge" else [*value[:-1], [0.9] * 10]
    assert OURS[SIZE].check(changed(found, high, **{entry: other})).verdict is FAILS
    if entry == "edge":
        assert OURS[SIZE].check(changed(found, high, edge=[*value[:-1], None])).verdict is FAILS


def test_the_name_of_a_setting_is_checked() -> None:
    with pytest.raises(ArgumentError, match="setting"):
        phase.setting_of("convolution", 8, 2, 1, 0)
