"""Training runs as the page shows them, wherever they lie: started from the page, by the command, or kept as cells.

A run has a name that the server made; what a visitor asks for is looked up among those names and never used as a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer.learn.training_state import COMMAND, FOLDER, TRAINING, WEIGHTS, step_of, told
from separatrix.explorer.learn.view import Floats
from separatrix.lab import plain
from separatrix.lab.store import Record, Store

COMMAND_FOLDER = Path("runs/selection")
"""Where `separatrix train selection` keeps its runs unless told otherwise."""
RECORDS_BYTES = 2**24
"""The longest file of records that is read."""
MOST_ENTRIES = 200 * 200
"""The largest W that is drawn."""
MOST_CELLS = 40
"""Runs in the store that are listed."""

_SEED, _STEP = re.compile(r"seed-(\d{1,9})\.jsonl"), re.compile(r"step-(\d{1,9})\.safetensors")
Weights = tuple[int, Floats, Floats]


@dataclass(frozen=True)
class TrainingRun:
    """What is known of a run: its records as lines over `step`, and the steps whose weights are kept.

    `lines`: the losses, the cosines and the validation losses by name; None where a record has none.
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
        """The lines that have a number."""
        return {name: line for name, line in self.lines.items() if any(value is not None for value in line)}

    def at(self, step: int) -> Weights:
        """The weights kept at `step` or last before it; the first ones if there are none before it."""
        if not self.kept:
            raise SeparatrixError(f"{self.title} has kept no weights yet.")
        return self.weights(max((one for one in self.kept if one <= step), default=self.kept[0]))


def listed(store: Path) -> dict[str, str]:
    """The runs by name, with what a reader sees for each: the page's, newest first, the command's, the store's."""
    training = store / TRAINING
    found: dict[str, str] = {}
    if training.is_dir():
        names = sorted((one.name for one in training.iterdir() if FOLDER.fullmatch(one.name)), reverse=True)
        found |= {name: f"{name}, started here" for name in names}
    if COMMAND_FOLDER.is_dir():
        seeds = sorted(int(match[1]) for one in COMMAND_FOLDER.iterdir() if (match := _SEED.fullmatch(one.name)))
        found |= {f"seed-{seed}": f"seed {seed} of `separatrix train selection`" for seed in seeds}
    for record in _cells(store):
        found[f"cell-{record.key[:12]}"] = _cell_title(record)
    return found


def known(store: Path, name: str) -> str:
    """The name, if a run has it."""
    started = FOLDER.fullmatch(name) and (store / TRAINING / name).is_dir()
    if not started and name not in listed(store):
        raise ArgumentError("run", expected="one of the runs that are listed", got=repr(name[:40]))
    return name


def read_run(store: Path, name: str) -> TrainingRun:
    """The run of that name."""
    name = known(store, name)
    if name.startswith("cell-"):
        return _of_cell(store, name)
    if name.startswith("run-"):
        folder = store / TRAINING / name
        [records] = [one for one in folder.iterdir() if _SEED.fullmatch(one.name)] or [folder / "seed-0.jsonl"]
        kept = {int(match[1]): one for one in _inside(folder / WEIGHTS) if (match := _STEP.fullmatch(one.name))}
        steps = (told(folder / COMMAND) or {}).get("steps", 0)
        return _of_records(name, records, kept, steps)
    records = COMMAND_FOLDER / f"{name}.jsonl"
    last = records.with_suffix(".safetensors")
    return _of_records(name, records, {_step_of(last): last} if last.exists() else {}, 0)


def _inside(folder: Path) -> Iterator[Path]:
    yield from folder.iterdir() if folder.is_dir() else ()


def _of_records(name: str, path: Path, files: Mapping[int, Path], steps: int) -> TrainingRun:
    """From the lines of JSON that a run leaves: the settings, then a record a line; the last may be half written."""
    lines = _lines(path)
    settings = json.loads(lines[0])["settings"] if lines else {}
    records = [plain.read(line) for line in lines[1:]]
    named = ("loss", "cosine_W", "cosine_V")
    columns = {one: tuple(record[one] for record in records) for one in named}
    tasks = list(records[0]["validation"]) if records else []
    columns |= {task: tuple(record["validation"].get(task) for record in records) for task in tasks}
    return TrainingRun(
        name,
        int(settings.get("steps", steps)),
        settings,
        tuple(record["step"] for record in records),
        {one.replace("_", " of "): column for one, column in columns.items()},
        tuple(sorted(files)),
        lambda step: _weights(files[step]),
        records[-1]["stopped"] if records else None,
    )


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > RECORDS_BYTES:
            raise SeparatrixError(f"The records of this run are longer than {RECORDS_BYTES / 2**20:g} MiB.")
        return path.read_text("utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []


def _weights(path: Path) -> Weights:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        return _drawable(_step_of(path), tensors["W"], tensors["V"])
    except (SafetensorError, OSError, KeyError) as error:
        raise SeparatrixError(f"The weights in {path.name} cannot be read: {error}") from error


def _drawable(step: int, W: Any, V: Any) -> Weights:
    if W.size > MOST_ENTRIES:
        raise SeparatrixError(f"W has {W.shape[0]} rows: up to {int(MOST_ENTRIES**0.5)} are drawn.")
    return step, np.asarray(W, np.float64), np.asarray(V, np.float64)


def _step_of(path: Path) -> int:
    with path.open("rb") as file:
        return step_of(file.read(2**16))


def _cells(store: Path) -> Iterator[Record]:
    """The training runs that `separatrix reproduce` left in the store, if there is one."""
    if not (store / "store.sqlite").exists():
        return
    with Store.open(store) as opened:
        for experiment in ("selection.heat_maps", "selection.training"):
            yield from islice(opened.records(experiment, "done"), MOST_CELLS)


def _cell_title(record: Record) -> str:
    asked = record.cell.arguments
    if record.cell.experiment == "selection.heat_maps":
        return f"claims: Figure 8, {asked['steps']:,} steps"
    return f"claims: T = {asked['T']}, {asked['encoding']}, {asked['optimiser']}, seed {record.cell.seed}"


def _of_cell(store: Path, name: str) -> TrainingRun:
    with Store.open(store) as opened:
        record = opened.record(name.removeprefix("cell-"))
        result = opened.result(record)
    step = tuple(int(one) for one in result["step"])
    lines: dict[str, tuple[float | None, ...]] = {
        one: _column(result[one]) for one in ("loss", "cosine_W", "cosine_V") if one in result
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
    named = {one.replace("_", " of "): line for one, line in lines.items()}
    return TrainingRun(
        _cell_title(record), int(asked["steps"]), asked, step, named, kept, weights, result.get("stopped")
    )


def _column(values: Sequence[float]) -> tuple[float | None, ...]:
    """Floats, None for nan."""
    return tuple(None if np.isnan(value) else float(value) for value in values)
