"""Tests of Figures 1, 2 and 4 to 7 in addition to the tests of all claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from separatrix.claims import ledger
from separatrix.claims.ledger import CellResult, Finding
from separatrix.claims.selection import figures_1_to_7
from tests.claims.cells import ran, shortened
from tests.claims.changes import HOLDS, NOT_REPRODUCED, UNDECIDED

OURS = {claim.id: claim for claim in ledger.claims("selection") if claim.home == figures_1_to_7.__name__}
FULL = sorted(id for id, claim in OURS.items() if claim.profile == "full")


@pytest.mark.parametrize("id", FULL)
def test_a_full_claim_runs(id: str) -> None:
    """With few steps nothing is learned, and a check says so instead of raising an error."""
    finding = OURS[id].judged(shortened(id))
    assert finding.verdict in (HOLDS, UNDECIDED, NOT_REPRODUCED)
    assert finding.numbers


def _edited(id: str, encoding: str, edit: Callable[[dict[str, Any]], None]) -> Finding:
    """The verdict after the result of one architecture's runs was changed."""
    cells = []
    for cell in ran(id):
        result = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in cell.result.items()}
        if cell.parameters["encoding"] == encoding:
            edit(result)
        cells.append(replace(cell, result=result))
    return OURS[id].judged(cells)


def test_the_checks_of_the_runs_depend_on_their_subject() -> None:
    one, two = "selection/figure-1/small", "selection/figure-2/small"
    assert _edited(one, "stochastic", lambda r: r["cosine_W"].__setitem__(-1, 0.5)).verdict is NOT_REPRODUCED
    assert _edited(one, "stochastic", lambda r: r["loss"].__setitem__(slice(None), 0.5)).verdict is NOT_REPRODUCED
    assert _edited(one, "fixed", lambda r: r["cosine_W"].__setitem__(-1, 0.5)).verdict is HOLDS
    assert _edited(two, "fixed", lambda r: r["validation"].__imul__(0.01)).verdict is NOT_REPRODUCED
    assert (
        _edited(two, "stochastic", lambda r: r["validation"].__setitem__(slice(None), 0.03)).verdict is NOT_REPRODUCED
    )
    assert _edited(two, "stochastic", lambda r: r.update(stopped="The run diverged.")).verdict is UNDECIDED


def _pair(
    free: float, fixed: float, tasks: Sequence[str], seeds: int = 1, growth: float = 0.1, **more: Any
) -> list[CellResult]:
    """Runs of both architectures that fall from 1 to the given final losses, each task above the one before."""
    cells = []
    for encoding, end in (("stochastic", free), ("fixed", fixed)):
        for seed in range(seeds):
            losses = np.concatenate([np.geomspace(1, end, 15), np.full(85, end)])
            result = {
                "step": np.arange(100),
                "tasks": list(tasks),
                "validation": losses[:, None] * (1 + growth * np.arange(len(tasks))),
                "stopped": None,
            }
            cells.append(CellResult({"encoding": encoding, "threshold": 0.4, "initial": "zero", **more}, seed, result))
    return cells


def test_the_floor_of_fixed_encodings_is_read_off_every_length() -> None:
    check = OURS["selection/figure-4/floor-of-fixed-encodings"].check
    assert check(_pair(0.01, 0.2, ["T=250", "T=400"], seeds=2)).verdict is HOLDS
    assert check(_pair(0.01, 0.149, ["T=250", "q=5"])).verdict is NOT_REPRODUCED
    least = check(_pair(0.01, 0.2, ["T=250", "q=5"])).numbers["least end of a fixed run, 0.15 in the paper"]
    assert least == pytest.approx(0.2)


def test_subsets_and_lengths_have_their_own_checks() -> None:
    subsets, lengths = (OURS[f"selection/figure-4/{part}"].check for part in ("subsets", "lengths"))
    assert subsets(_pair(0.01, 0.05, ["q=5", "q=6"], seeds=3)).verdict is HOLDS
    assert subsets(_pair(0.01, 0.05, ["q=5", "q=6"], seeds=3, growth=-0.1)).verdict is NOT_REPRODUCED
    assert subsets(_pair(0.05, 0.01, ["q=5", "q=6"], seeds=3)).verdict is NOT_REPRODUCED
    assert subsets(_pair(0.01, 0.5, ["q=5", "q=6"], seeds=3)).verdict is NOT_REPRODUCED
    assert lengths(_pair(0.01, 0.2, ["T=250"], seeds=3)).verdict is HOLDS
    assert lengths(_pair(0.045, 0.2, ["T=250"], seeds=3)).verdict is NOT_REPRODUCED
    assert lengths(_pair(0.06, 0.4, ["T=250"], seeds=3)).verdict is NOT_REPRODUCED
    assert OURS["selection/figure-5"].check(_pair(0.01, 0.2, ["T=250", "q=5"])).verdict is HOLDS
    assert OURS["selection/figure-5"].check(_pair(0.045, 0.2, ["T=250", "q=5"])).verdict is NOT_REPRODUCED


@pytest.mark.parametrize("id", ["selection/figure-6", "selection/figure-7"])
def test_random_initialization_must_end_near_zero_initialization(id: str) -> None:
    tasks = ["T=250", "q=5"]
    zero, alike, apart = (
        _pair(0.01 * factor, 0.2 * factor, tasks, initial=initial)
        for factor, initial in ((1.0, "zero"), (2.5, "random"), (4.0, "random"))
    )
    assert OURS[id].check([*zero, *alike]).verdict is HOLDS
    assert OURS[id].check([*zero, *apart]).verdict is NOT_REPRODUCED


@pytest.mark.parametrize("id", FULL)
def test_a_run_that_diverged_decides_nothing(id: str) -> None:
    pair = _pair(0.01, 0.2, ["T=250", "q=5"], seeds=2)
    pair[-1].result["stopped"] = "The run diverged."  # type: ignore[index]
    assert OURS[id].judged(pair).verdict is UNDECIDED


def test_full_training_cells_are_the_papers() -> None:
    cells = {cell for id in FULL for cell in OURS[id].cells() if cell.experiment == "selection.training"}
    sizes = {tuple(cell.arguments[name] for name in ("T", "q", "d", "width", "steps")) for cell in cells}
    assert sizes == {(200, 3, 5, 170, 100_000)}
    kinds = {tuple(cell.arguments[name] for name in ("encoding", "optimiser", "initial", "batch")) for cell in cells}
    wanted = {(e, o, i, 128) for e in ("stochastic", "fixed") for o in ("sgd", "adam") for i in ("zero", "random")}
    assert kinds == wanted | {(e, "sgd", "zero", 256) for e in ("stochastic", "fixed")}
    seeds = {cell.seed for cell in cells if cell.arguments["optimiser"] == "sgd" and cell.arguments["batch"] == 128}
    assert seeds == set(range(5))
    assert {cell.seed for cell in cells if cell.arguments["optimiser"] == "adam"} == set(range(3))
    assert len(cells) == 2 * 5 + 2 + 4 * 3 + 2 + 4
