"""Read the training runs of a store: their records and their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from separatrix.checks import is_number, is_whole
from separatrix.lab import canonical_json
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.runs.cells import name_of, record_fields, selection_piece, settings_of
from separatrix.selection.settings import TrainingSettings

EXPERIMENT = "runs.selection"


@dataclass(frozen=True)
class StoredRun:
    """A run of a store: its settings, and its finished pieces in the order of their steps."""

    name: str
    settings: TrainingSettings
    done: tuple[StoredRecord, ...]

    def records(self) -> list[dict[str, Any]]:
        """The records of all pieces, as dictionaries with the fields of `cells.record_fields`."""
        return [record for piece in self.done for record in canonical_json.read(piece.result or "{}")["records"]]

    def kept(self) -> dict[int, StoredRecord]:
        """The pieces that have a state, by the step of the state."""
        steps = {canonical_json.read(piece.result or "{}")["step"]: piece for piece in self.done}
        return {step: piece for step, piece in steps.items() if step is not None}


def stored_runs(store: Store, name: str | None = None) -> Iterator[StoredRun]:
    """Yield the runs of a store in the order in which they were started, or only the run with the given name.

    Rows that no run can have written are skipped, because the store may come from an untrusted source.
    """
    runs: dict[str, list[tuple[int, StoredRecord]]] = {}
    for record in store.records(EXPERIMENT, "done"):
        if not (_is_piece(record) and is_result(record)):
            continue
        arguments = record.cell.arguments
        until = arguments.pop("until")
        runs.setdefault(canonical_json.canonical({**arguments, "seed": record.cell.seed}), []).append((until, record))
    for text, pieces in runs.items():
        arguments = canonical_json.read(text)
        settings = settings_of(arguments)
        called = name_of(settings, arguments["checkpoint_every"])
        if name in (None, called):
            done = sorted(pieces, key=lambda piece: piece[0])
            yield StoredRun(called, settings, tuple(record for _, record in done))


def _is_piece(record: StoredRecord) -> bool:
    """Whether a record has the parameters of a piece of a run."""
    arguments, seed = record.cell.arguments, record.cell.seed
    try:
        settings_of({**arguments, "seed": seed})
        return selection_piece.cell(seed=seed, **arguments) == record.cell
    except (ValueError, TypeError, KeyError, OverflowError):
        return False


def is_result(record: StoredRecord) -> bool:
    """Whether a record has a result in the form that `cells.came_out` returns."""
    match canonical_json.read(record.result or "{}"):
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
