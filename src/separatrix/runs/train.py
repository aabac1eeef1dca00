"""Train a run into a store: the pieces that the store has are skipped, so that a stopped run goes on where it was."""

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
from separatrix.lab.store import Store, StoredRecord
from separatrix.lab.worker import CellOutcome
from separatrix.runs.cells import came_out, pieces
from separatrix.runs.read import is_result
from separatrix.selection import training
from separatrix.selection.checkpoint import Checkpoint
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.training import Record

__all__ = ["Kept", "kept", "trained"]


@dataclass(frozen=True)
class Kept:
    """What a store has of a run: the state to go on from, if there is one, and why the run is over, if it is."""

    state: Checkpoint | None
    over: str | None

    @property
    def step(self) -> int:
        """The step that the run goes on from."""
        return 0 if self.state is None else self.state.step


def kept(store: Store, settings: TrainingSettings, checkpoint_every: int) -> Kept:
    """Read the last of the pieces of a run that a store has without a gap.

    Raises:
        DamagedError: if the store has something else in its place, as one from somebody else may.
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
    """Yield the records of the rest of a run, each piece written to the store at its end.

    Args:
        lease: the hold on the store, with Ctrl-C noted by the caller (see `separatrix.lab.interrupts.noted`).
        settings: the run.
        checkpoint_every: the steps between two states that are kept.
        start: what the store has of the run, which must not be over.

    Raises:
        SeparatrixError: another process trains this run.
        KeyboardInterrupt: Ctrl-C was pressed; what is written stays.
    """
    source = training.resumable(settings, start=start.state, checkpoint_every=checkpoint_every)
    try:
        for cell in pieces(settings, checkpoint_every):
            if cell.arguments["until"] <= start.step and start.state is not None:
                continue
            held = lease.take([(cell.key, cell)], failed_too=True).get(cell.key)
            if held not in (None, "done"):  # one that is done lies behind a piece that was damaged
                folder = lease.store.folder
                raise SeparatrixError(f"Another command trains this run into {folder}: wait for it, or stop it.")
            started = time.perf_counter()
            records: list[Record] = []
            state: Checkpoint | None = None
            while state is None:
                with cut_short():
                    made = next(source, None)
                if made is None:  # the run diverged: there is no state after its last record
                    break
                if isinstance(made, Record):
                    records.append(made)
                    yield made
                else:
                    state = made
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
