"""The training runs of a store, read back: their records as lines over the step, and their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from separatrix.checks import is_number, is_whole
from separatrix.lab import plain
from separatrix.lab.store import Store, StoredRecord
from separatrix.runs.cells import name_of, record_fields, selection_piece, settings_of
from separatrix.selection.settings import TrainingSettings

__all__ = ["StoredRun", "is_result", "stored_runs"]

EXPERIMENT = "runs.selection"


@dataclass(frozen=True)
class StoredRun:
    """A run of a store: its settings, and its pieces that are done, in the order of their steps."""

    name: str
    settings: TrainingSettings
    done: tuple[StoredRecord, ...]

    def records(self) -> list[dict[str, Any]]:
        """Give the records of all pieces, each a dict with the fields of `cells.record_fields`."""
        return [record for piece in self.done for record in plain.read(piece.result or "{}")["records"]]

    def kept(self) -> dict[int, StoredRecord]:
        """Give the pieces with a state, by its step."""
        steps = {plain.read(piece.result or "{}")["step"]: piece for piece in self.done}
        return {step: piece for step, piece in steps.items() if step is not None}


def stored_runs(store: Store, name: str | None = None) -> Iterator[StoredRun]:
    """Yield the runs that a store has something of, in the order in which they began; or the one of that name.

    Rows that no run can have written are left out: the store may come from somebody else.
    """
    runs: dict[str, list[tuple[int, StoredRecord]]] = {}
    for record in store.records(EXPERIMENT, "done"):
        if not (_is_piece(record) and is_result(record)):
            continue
        arguments = record.cell.arguments
        until = arguments.pop("until")
        runs.setdefault(plain.canonical({**arguments, "seed": record.cell.seed}), []).append((until, record))
    for text, pieces in runs.items():
        arguments = plain.read(text)
        settings = settings_of(arguments)
        called = name_of(settings, arguments["checkpoint_every"])
        if name in (None, called):
            done = sorted(pieces, key=lambda piece: piece[0])
            yield StoredRun(called, settings, tuple(record for _, record in done))


def _is_piece(record: StoredRecord) -> bool:
    """Whether the parameters of a record are those of a piece of a run."""
    arguments, seed = record.cell.arguments, record.cell.seed
    try:
        settings_of({**arguments, "seed": seed})
        return selection_piece.cell(seed=seed, **arguments) == record.cell
    except (ValueError, TypeError, KeyError, OverflowError):
        return False


def is_result(record: StoredRecord) -> bool:
    """Whether the result of a record has the form that `cells.came_out` gives it."""
    match plain.read(record.result or "{}"):
        case {"records": list(lines), "state": dict() | None, "step": int() | None}:
            return all(isinstance(line, dict) and _is_line(line) for line in lines)
    return False


def _is_line(line: dict[str, Any]) -> bool:
    if line.keys() != set(record_fields) or not is_whole(line["step"], low=0):
        return False
    numbers = [line["loss"], line["lr"], line["cosine_W"], line["cosine_V"]]
    if not isinstance(line["validation"], dict) or not isinstance(line["stopped"], str | None):
        return False
    return all(value is None or is_number(value) for value in (*numbers, *line["validation"].values()))
