"""The training runs of the store: those of `separatrix train selection`, and those of the claims.

The server names the runs; the name in a request is looked up among them and never used as a path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer.learn.dynamics import Floats
from separatrix.explorer.learn.training_state import COMMAND, NAME, TRAINING, read_json
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store, has_store
from separatrix.runs.read import StoredRun, stored_runs
from separatrix.selection.settings import TrainingSettings

MOST_ENTRIES = 200 * 200
"""The largest number of entries of W that are drawn."""
MOST_LISTED = 40
"""The largest number of runs of each kind that are listed."""

Weights = tuple[int, Floats, Floats]


@dataclass(frozen=True)
class TrainingRun:
    """A run: its records as curves over `step`, and the steps whose weights were stored.

    `lines` has the losses, the cosines and the validation losses by name, with None for missing values.
    """

    title: str
    steps: int
    settings: Mapping[str, Any]
    step: tuple[int, ...]
    lines: Mapping[str, tuple[float | None, ...]]
    kept: tuple[int, ...]
    weights: Callable[[int], Weights]
    stopped: str | None = None

    @property
    def drawable(self) -> dict[str, tuple[float | None, ...]]:
        """The curves with at least one value."""
        return {name: line for name, line in self.lines.items() if any(value is not None for value in line)}

    def at(self, step: int) -> Weights:
        """The last weights that were stored up to `step`, or the first ones if all were stored later."""
        if not self.kept:
            raise SeparatrixError(f"{self.title} has stored no weights yet.")
        return self.weights(max((kept for kept in self.kept if kept <= step), default=self.kept[0]))


def listed(store: Path) -> dict[str, str]:
    """The titles of the runs by name: first the training runs, newest first, then the runs of the claims."""
    titles: dict[str, str] = {}
    training = store / TRAINING
    if training.is_dir():  # a run that has just started is not in the store yet
        titles |= {
            folder.name: f"{folder.name}, started here" for folder in training.iterdir() if NAME.fullmatch(folder.name)
        }
    if not has_store(store):
        return titles
    with Store.open(store) as opened:
        for run in reversed(list(stored_runs(opened))[-MOST_LISTED:]):
            titles[run.name] = _title(run.settings)
        for record in _cells(opened):
            titles[f"cell-{record.key[:12]}"] = _cell_title(record)
    return titles


def known(store: Path, name: str) -> str:
    """Return the name if there is such a run; otherwise raise an `ArgumentError`."""
    started = NAME.fullmatch(name) and (store / TRAINING / name).is_dir()
    if not started and name not in listed(store):
        raise ArgumentError("run", expected="one of the runs that are listed", got=repr(name[:40]))
    return name


def read_run(store: Path, name: str) -> TrainingRun:
    """Read a run by its name."""
    name = known(store, name)
    if name.startswith("cell-"):
        return _of_cell(store, name)
    if has_store(store):
        with Store.open(store) as opened:
            for run in stored_runs(opened, name):
                return _of_pieces(store, run)
    steps = (read_json(store / TRAINING / name / COMMAND) or {}).get("steps")
    return TrainingRun(name, steps if is_whole(steps, low=0, high=10**9) else 0, {}, (), {}, (), _no_weights)


def _no_weights(step: int) -> Weights:
    raise SeparatrixError("This run has stored no weights yet.")


def _title(settings: TrainingSettings) -> str:
    return f"T = {settings.T}, q = {settings.q}, {settings.encoding}, {settings.optimiser}, seed {settings.seed}"


def _of_pieces(store: Path, run: StoredRun) -> TrainingRun:
    records, kept = run.records(), run.kept()
    columns = {
        column_name: tuple(record[column_name] for record in records)
        for column_name in ("loss", "cosine_W", "cosine_V")
    }
    tasks = list(records[0]["validation"]) if records else []
    columns |= {task: tuple(record["validation"].get(task) for record in records) for task in tasks}

    def weights(step: int) -> Weights:
        with Store.open(store) as opened:
            state = opened.result(kept[step])["state"]
        return _drawable(step, state["W"], state["V"])

    return TrainingRun(
        _title(run.settings),
        run.settings.steps,
        dataclasses.asdict(run.settings),
        tuple(record["step"] for record in records),
        {column_name.replace("_", " of "): column for column_name, column in columns.items()},
        tuple(sorted(kept)),
        weights,
        records[-1]["stopped"] if records else None,
    )


def _drawable(step: int, W: Any, V: Any) -> Weights:
    if W.size > MOST_ENTRIES:
        raise SeparatrixError(f"W has {W.shape[0]} rows: up to {int(MOST_ENTRIES**0.5)} are drawn.")
    return step, np.asarray(W, np.float64), np.asarray(V, np.float64)


def _cells(store: Store) -> Iterator[StoredRecord]:
    """The training runs of `separatrix reproduce` in the store; rows without parameters are ignored."""
    for experiment, needed in (("selection.heat_maps", set()), ("selection.training", {"T", "encoding", "optimiser"})):
        records = (
            record
            for record in store.records(experiment, "done")
            if needed <= (asked := record.cell.arguments).keys() and is_whole(asked.get("steps"), low=0)
        )
        yield from islice(records, MOST_LISTED)


def _cell_title(record: StoredRecord) -> str:
    asked = record.cell.arguments
    if record.cell.experiment == "selection.heat_maps":
        return f"claims: Figure 8, {asked['steps']:,} steps"
    return f"claims: T = {asked['T']}, {asked['encoding']}, {asked['optimiser']}, seed {record.cell.seed}"


def _of_cell(store: Path, name: str) -> TrainingRun:
    with Store.open(store) as opened:
        record = opened.record(name.removeprefix("cell-"))
        result = opened.result(record)
    step = tuple(int(number) for number in result["step"])
    lines: dict[str, tuple[float | None, ...]] = {
        column_name: _column(result[column_name])
        for column_name in ("loss", "cosine_W", "cosine_V")
        if column_name in result
    }
    for at, task in enumerate(result.get("tasks", ())):
        lines[task] = _column(result["validation"][:, at])
    W: Any = result.get("W")
    V: Any = result.get("V")
    stacked = W is not None and W.ndim == 3
    kept = () if W is None else step if stacked else step[-1:]

    def weights(at: int) -> Weights:
        index = kept.index(at)
        return _drawable(at, W[index] if stacked else W, V[index] if stacked else V)

    asked = record.cell.arguments
    named = {column_name.replace("_", " of "): line for column_name, line in lines.items()}
    return TrainingRun(
        _cell_title(record), int(asked["steps"]), asked, step, named, kept, weights, result.get("stopped")
    )


def _column(values: Sequence[float]) -> tuple[float | None, ...]:
    """Floats, None for nan."""
    return tuple(None if np.isnan(value) else float(value) for value in values)
