"""The training runs of a store, read back: their records as lines over the step, and their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from separatrix.lab import plain
from separatrix.lab.store import Record, Store
from separatrix.runs.cells import name_of, settings_of
from separatrix.selection.settings import TrainingSettings

__all__ = ["StoredRun", "stored_runs"]

EXPERIMENT = "runs.selection"


@dataclass(frozen=True)
class StoredRun:
    """A run of a store: its settings, and its pieces that are done, in the order of their steps."""

    name: str
    settings: TrainingSettings
    done: tuple[Record, ...]

    def records(self) -> list[dict[str, Any]]:
        """Give the records of all pieces, each a dict with the fields of `cells.record_fields`."""
        return [record for piece in self.done for record in plain.read(piece.result or "{}")["records"]]

    def kept(self) -> dict[int, Record]:
        """Give the pieces with a state, by its step."""
        steps = {plain.read(piece.result or "{}")["step"]: piece for piece in self.done}
        return {step: piece for step, piece in steps.items() if step is not None}


def stored_runs(store: Store, name: str | None = None) -> Iterator[StoredRun]:
    """Yield the runs that a store has something of, in the order in which they began; or the one of that name."""
    runs: dict[str, list[tuple[int, Record]]] = {}
    for record in store.records(EXPERIMENT, "done"):
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
