"""The kept results of the quick profile are those that its cells give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from separatrix.lab.cell import Cell
from tests.claims.cells import outcome, rerun
from tests.claims.quick_runs import kept, quick_cells

CELLS = {key: cell for key, cell in quick_cells().items() if key in kept()}


RERUN = {cell.experiment: cell for key, cell in CELLS.items() if "rerun" in kept()[key]}
"""The kept cell of each experiment that tests run."""


def check_like(value: Any, expected: Any, name: str = "result") -> None:
    """Assert the same structure, and numbers that differ only as much as training runs on different processors do."""
    if isinstance(expected, Mapping):
        assert value.keys() == expected.keys(), name
        for key in expected:
            check_like(value[key], expected[key], f"{name}.{key}")
    elif isinstance(expected, list):
        assert len(value) == len(expected), name
        for index, (entry, expected_entry) in enumerate(zip(value, expected, strict=True)):
            check_like(entry, expected_entry, f"{name}[{index}]")
    elif isinstance(expected, float | int) and not isinstance(expected, bool):
        assert value == pytest.approx(expected, rel=0.05, abs=1 if isinstance(expected, int) else 0.05), name
    else:
        assert value == expected, name


def check_kept(cell: Cell, result: str) -> None:
    check_like(json.loads(result), json.loads(kept()[cell.key]["result"]))


@pytest.mark.parametrize("experiment", RERUN)
def test_the_shortest_cell_of_an_experiment_gives_the_kept_result(experiment: str) -> None:
    check_kept(RERUN[experiment], outcome(RERUN[experiment]).result)


def test_a_cell_of_every_kept_experiment_is_run() -> None:
    assert RERUN.keys() == {cell.experiment for cell in CELLS.values()}


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_kept_cell_gives_the_kept_result() -> None:
    for cell in CELLS.values():
        check_kept(cell, rerun(cell).result)


def test_a_different_result_is_detected() -> None:
    expected = {"accuracy": [0.5, 0.9], "steps": 3, "name": "sgd"}
    check_like({"accuracy": [0.51, 0.9], "steps": 3, "name": "sgd"}, expected)
    for value in ({"accuracy": [0.5, 0.7]}, {"accuracy": [0.5]}, {"steps": 5}, {"name": "adam"}):
        with pytest.raises(AssertionError):
            check_like({**expected, **value}, expected)
    with pytest.raises(AssertionError):
        check_like({"accuracy": [0.5, 0.9]}, expected)
