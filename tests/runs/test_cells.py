"""A part of a run as a cell: the same result alone or as a part of the run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from separatrix.errors import ArgumentError
from separatrix.lab import Store, in_process, run
from separatrix.lab.faults import DamagedError
from separatrix.lab.interrupts import noted
from separatrix.lab.lease import Lease
from separatrix.runs.cells import name_of, pieces
from separatrix.runs.read import stored_runs
from separatrix.runs.train import kept, trained
from separatrix.selection.settings import TrainingSettings
from tests.lab.helpers import contents, fill

SMALL = TrainingSettings(
    T=9, q=2, d=2, width=14, threshold=0.6, optimiser="adam", lr=((0, 0.01), (30, 0.005)), initial="random", batch=6,
    steps=50, seed=3, validate_every=10, validation_T=(11,), validation_q=(3,), validation_batch=5,
)  # fmt: skip


def trained_into(folder: Path, settings: TrainingSettings, every: int) -> None:
    with Store.create(folder) as store, noted(), Lease(store) as lease:
        list(trained(lease, settings, every, kept(store, settings, every)))


@pytest.mark.parametrize("settings", [SMALL, dataclasses.replace(SMALL, lr=((0, 1e30),), optimiser="sgd")])
def test_a_piece_run_alone_is_that_of_the_run(tmp_path: Path, settings: TrainingSettings) -> None:
    trained_into(tmp_path / "run", settings, 15)
    with Store.open(tmp_path / "run") as store:
        done = [record.cell for record in store.records()]
    with Store.create(tmp_path / "cells") as store:
        assert run(store, reversed(done), in_process()).done == len(done)
    assert contents(tmp_path / "run") == contents(tmp_path / "cells")


def test_a_run_has_one_name_and_other_runs_have_others() -> None:
    names = [name_of(SMALL, 15), name_of(SMALL, 10), name_of(dataclasses.replace(SMALL, seed=4), 15)]
    assert len({*names, name_of(SMALL, 15)}) == 3
    assert [cell.arguments["until"] for cell in pieces(SMALL, 15)] == [15, 30, 45, 50]
    assert len(pieces(SMALL, 99)) == 1
    with pytest.raises(ArgumentError, match="checkpoint_every: expected an integer >= 1"):
        pieces(SMALL, 0)


def test_runs_are_read_back(tmp_path: Path) -> None:
    for every in (20, 50):
        trained_into(tmp_path, SMALL, every)
    with Store.open(tmp_path) as store:
        first, second = stored_runs(store)
        assert [stored_run.name for stored_run in stored_runs(store, second.name)] == [second.name]
        assert list(stored_runs(store, "run-000000000000")) == []
    assert first.settings == second.settings == SMALL
    assert (sorted(first.kept()), sorted(second.kept())) == ([20, 40, 50], [50])
    assert first.records() == second.records()
    assert [record["step"] for record in first.records()] == [0, 10, 20, 30, 40, 50]


def test_a_run_with_another_token_of_the_query_is_not_kept() -> None:
    run = TrainingSettings(T=8, q=2, d=1, width=16, threshold=0.9, validation_T=(), validation_q=(), query="drawn")
    with pytest.raises(ArgumentError, match=r"^query: expected 'zero' for a run that is stored, got 'drawn'"):
        pieces(run, checkpoint_every=100)


@pytest.mark.parametrize(
    "result",
    [
        '{"other":1.0}',
        '{"records":[],"state":{},"step":50}',
        '{"records":[],"state":{"W":"text"},"step":50}',
        '{"records":[],"state":null,"step":50}',
        '{"records":[{"stopped":7}],"state":null,"step":null}',
    ],
)
def test_a_forged_state_is_refused(tmp_path: Path, result: str) -> None:
    """In a store from an untrusted source the last part of a run may have any result, with a correct checksum."""
    fill(tmp_path, pieces(SMALL, 50), result)
    with Store.open(tmp_path) as store, pytest.raises(DamagedError, match="is not that of a training run"):
        kept(store, SMALL, 50)
