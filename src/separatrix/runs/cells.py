"""A piece of a training run as a cell: the records since the last checkpoint, and the state at its end.

A piece ends at the step `until`, which is a multiple of `checkpoint_every` or the last step. Its result is a function
of its parameters, as for every cell: a run that was resumed from a checkpoint has bitwise the same pieces as a run that
never stopped. The query token is zero in all runs and is not a parameter.

>>> from separatrix.selection import TrainingSettings
>>> run = TrainingSettings(T=8, q=2, d=1, width=16, threshold=0.9, steps=250, validation_T=(), validation_q=())
>>> [cell.arguments["until"] for cell in pieces(run, checkpoint_every=100)]
[100, 200, 250]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.checkpoint import Checkpoint
from separatrix.selection.settings import EncodingKind, InitialKind, OptimiserKind, TrainingSettings
from separatrix.selection.training import Record, resumable


@experiment(version=1, name="runs.selection")
def selection_piece(
    T: int,
    q: int,
    d: int,
    width: int,
    encoding: EncodingKind,
    threshold: float,
    optimiser: OptimiserKind,
    lr: list[list[float]],
    initial: InitialKind,
    std: float | None,
    batch: int,
    steps: int,
    validate_every: int,
    validation_T: list[int],
    validation_q: list[int],
    validation_batch: int,
    checkpoint_every: int,
    until: int,
    seed: int,
) -> dict[str, Any]:
    """Train from the start to the step `until`; return the records since the previous checkpoint, and the state."""
    settings = settings_of({**locals(), "seed": seed})
    records: list[Record] = []
    with closing(resumable(settings, checkpoint_every=checkpoint_every)) as run:
        for item in run:
            if isinstance(item, Record):
                records.append(item)
            elif item.step == until:
                return came_out(records, item)
            else:
                records.clear()
    return came_out(records, None)


def pieces(settings: TrainingSettings, checkpoint_every: int) -> list[Cell]:
    """List the cells of a run, in the order of its steps."""
    every = whole("checkpoint_every", checkpoint_every, low=1)
    return [_piece(settings, every, until) for until in (*range(every, settings.steps, every), settings.steps)]


def name_of(settings: TrainingSettings, checkpoint_every: int) -> str:
    """The name of a run, from the key of its last cell: equal runs have equal names."""
    return f"run-{_piece(settings, checkpoint_every, settings.steps).key[:12]}"


def came_out(records: Iterable[Record], state: Checkpoint | None) -> dict[str, Any]:
    """The result of a piece; a run that diverged has no final state."""
    return {
        "records": [{name: getattr(record, name) for name in record_fields} for record in records],
        "state": None if state is None else state.tensors(),
        "step": None if state is None else state.step,
    }


record_fields = ("step", "loss", "lr", "cosine_W", "cosine_V", "validation", "stopped")
"""The fields of a record that are stored: all but the weights, which are in the state."""


def settings_of(arguments: Mapping[str, Any]) -> TrainingSettings:
    """Make the settings of a run from the parameters of one of its cells and the seed.

    >>> run = TrainingSettings(T=8, q=2, d=1, width=16, threshold=0.9, validation_T=(9,), validation_q=())
    >>> [cell] = pieces(run, checkpoint_every=100_000)
    >>> settings_of({**cell.arguments, "seed": cell.seed}) == run
    True
    """
    names = [field.name for field in dataclasses.fields(TrainingSettings) if field.name in arguments]
    given = {name: arguments[name] for name in names}
    given["lr"] = tuple((int(step), rate) for step, rate in arguments["lr"])
    given |= {name: tuple(arguments[name]) for name in ("validation_T", "validation_q")}
    return TrainingSettings(**given)


def _piece(settings: TrainingSettings, checkpoint_every: int, until: int) -> Cell:
    if settings.query != "zero":
        raise ArgumentError("query", expected="'zero' for a run that is stored", got=repr(settings.query))
    names = [field.name for field in dataclasses.fields(settings) if field.name not in ("seed", "snapshots", "query")]
    given = {name: getattr(settings, name) for name in names}
    return selection_piece.cell(seed=settings.seed, **given, checkpoint_every=checkpoint_every, until=until)
