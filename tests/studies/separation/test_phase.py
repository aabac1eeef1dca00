"""The claims on phase diagrams: their verdicts, and results that change them."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.claims.ledger import Verdict
from separatrix.errors import ArgumentError
from separatrix.studies.separation import phase
from tests.studies.cells import changed, claims_of, given, ran

OURS = claims_of(phase)
HOLDS, FAILS = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED


SIGNAL, SIZE = "phase-diagram/a0-and-a1", "phase-diagram/n-and-d"


@pytest.mark.parametrize("entry", ["success", "edge", "at_edge", "before_edge", "linear_silent"])
def test_another_phase_over_signal_is_another_verdict(entry: str) -> None:
    cells = ran(SIGNAL)
    columns = cells[0].result["success"]
    other: dict[str, Any] = {
        "success": [[x + 0.01 * (i == 1) for x in column] for i, column in enumerate(columns)],
        "edge": [1.01] * len(columns),
        "at_edge": [0.4] * len(columns),
        "before_edge": [0.6] * len(columns),
        "linear_silent": [[1.0] * 50] * len(columns),
    }
    assert OURS[SIGNAL].check(changed(cells, lambda cell: True, **{entry: other[entry]})).verdict is FAILS


def test_an_edge_that_moves_early_is_another_verdict() -> None:
    cells = ran(SIGNAL)
    edges = cells[0].result["edge"]
    assert OURS[SIGNAL].check(changed(cells, lambda cell: True, edge=[*edges[:4], *[None] * 27])).verdict is FAILS


@pytest.mark.parametrize("entry", ["success", "edge"])
def test_another_phase_over_size_is_another_verdict(entry: str) -> None:
    cells = ran(SIZE)
    high = given(level=phase.HIGH)
    value = next(cell for cell in cells if high(cell)).result[entry]
    wider = [258 if i == len(value) - 1 else edge for i, edge in enumerate(value)]
    other = wider if entry == "edge" else [*value[:-1], [0.9] * 10]
    assert OURS[SIZE].check(changed(cells, high, **{entry: other})).verdict is FAILS
    if entry == "edge":
        assert OURS[SIZE].check(changed(cells, high, edge=[*value[:-1], None])).verdict is FAILS


def test_the_name_of_a_setting_is_checked() -> None:
    with pytest.raises(ArgumentError, match="setting"):
        phase.setting_of("convolution", 8, 2, 1, 0)
