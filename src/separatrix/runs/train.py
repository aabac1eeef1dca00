"""Train a run and store its pieces, except those that the store has, so that a stopped run is resumed."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from separatrix.errors import SeparatrixError
from separatrix.lab import provenance, results
from separatrix.lab.cell import Cell
from separatrix.lab.faults import DamagedError
from separatrix.lab.interrupts import cut_short
from separatrix.lab.lease import Lease
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.lab.worker import CellOutcome
from separatrix.runs.cells import came_out, pieces
from separatrix.runs.read import is_result
from separatrix.selection import training
from separatrix.selection.checkpoint import Checkpoint
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.training import Record


@dataclass(frozen=True)
class Kept:
    """The progress of a run in a store: the state to resume from, and why the run is over; both may be None."""

    state: Checkpoint | None
    over: str | None

    @property
    def step(self) -> int:
        """The step from which the run is resumed."""
        return 0 if self.state is None else self.state.step


def kept(store: Store, settings: TrainingSettings, checkpoint_every: int) -> Kept:
    """Read the last piece of a run before the first piece that the store lacks.

    Raises:
        DamagedError: if the result in the store is not that of a training run.
    """
    cells = pieces(settings, checkpoint_every)
    status = store.statuses([cell.key for cell in cells])
    have = [cell for cell, done in zip(cells, _unbroken(cells, status), strict=False) if done]
    if not have:
        return Kept(None, None)
    record = store.record(have[-1].key)
    if not is_result(record):
        raise _not_of_a_run(record)
    result = store.result(record)
    stopped = result["records"][-1]["stopped"] if result["records"] else None
    if stopped is not None:
        return Kept(None, stopped)
    try:
        state = Checkpoint.of_tensors(result["step"], result["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_of_a_run(record) from error
    return Kept(state, f"all {settings.steps:,} steps were done before." if state.step == settings.steps else None)


def _not_of_a_run(record: StoredRecord) -> DamagedError:
    return DamagedError(
        f"The result of {record.cell} in the store is not that of a training run. Remove the store, or choose another "
        "one with --store."
    )


def _unbroken(cells: list[Cell], status: dict[str, str]) -> Iterator[bool]:
    for cell in cells:
        if status.get(cell.key) != "done":
            return
        yield True


def trained(
    lease: Lease, settings: TrainingSettings, checkpoint_every: int, start: Kept
) -> Generator[Record, None, None]:
    """Train the rest of a run and yield its records; write each piece to the store when it ends.

    Args:
        lease: the lease on the store; the caller handles Ctrl-C (see `separatrix.lab.interrupts.noted`).
        settings: the run.
        checkpoint_every: the number of steps between checkpoints.
        start: the progress of the run in the store; the run must not be over.

    Raises:
        SeparatrixError: if another process trains this run.
        KeyboardInterrupt: after Ctrl-C; the pieces written so far stay in the store.
    """
    source = training.resumable(settings, start=start.state, checkpoint_every=checkpoint_every)
    try:
        for cell in pieces(settings, checkpoint_every):
            if cell.arguments["until"] <= start.step and start.state is not None:
                continue
            held = lease.take([(cell.key, cell)], failed_too=True).get(cell.key)
            if held not in (None, "done"):  # a finished piece that follows a damaged piece
                folder = lease.store.folder
                raise SeparatrixError(f"Another command is training this run in {folder}: wait for it, or stop it.")
            started = time.perf_counter()
            records: list[Record] = []
            state: Checkpoint | None = None
            while state is None:
                with cut_short():
                    item = next(source, None)
                if item is None:  # the run diverged and has no state after its last record
                    break
                if isinstance(item, Record):
                    records.append(item)
                    yield item
                else:
                    state = item
            lease.check()
            if held is None:
                text, arrays = results.encode(came_out(records, state))
                seconds = time.perf_counter() - started
                outcome = CellOutcome(result=text, arrays=arrays, seconds=seconds, origin=provenance.origin())
                lease.record([(cell.key, cell, outcome)])
            if state is None:
                return
    finally:
        source.close()
