"""A run's hold on a store: which cells it has taken, that it is alive, and what came out.

Two runs on one store never do the same cell: a cell is taken in a transaction, and stays taken while its run lives.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from threading import Event, Thread
from typing import Self
from uuid import uuid4

from separatrix.lab import arrays
from separatrix.lab.alive import lives, lock_path
from separatrix.lab.cell import Cell
from separatrix.lab.faults import StoreError, plainly
from separatrix.lab.store import Store
from separatrix.lab.worker import Outcome

if sys.platform != "win32":
    import fcntl

BEAT_SECONDS = 5.0


class Lease:
    """The run that this process drives. The only writer of cells; use it as a context."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = uuid4().hex
        self._lock = -1
        self._stop = Event()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)
        self._trouble: Exception | None = None

    def __enter__(self) -> Self:
        path = lock_path(self.store.folder, self.id)
        with plainly(path):
            path.parent.mkdir(exist_ok=True)
            self._lock = os.open(path, os.O_CREAT | os.O_RDWR)
            if sys.platform != "win32":
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            with self.store.transaction() as connection:
                row = (self.id, platform.node(), os.getpid(), time.time())
                connection.execute("INSERT INTO runs (id, host, pid, heartbeat) VALUES (?, ?, ?, ?)", row)
            self.bury_the_dead()
        except BaseException:
            self._let_go()
            raise
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            # After a fault of the store itself, nothing is written: once the lock is let go, the next run takes over.
            if kind is None or not issubclass(kind, StoreError):
                _bury(self.store, [self.id])
        finally:
            self._let_go()

    def _let_go(self) -> None:
        os.close(self._lock)
        lock_path(self.store.folder, self.id).unlink(missing_ok=True)

    def _beat(self) -> None:
        try:
            with Store.create(self.store.folder) as own:
                while not self._stop.wait(BEAT_SECONDS):
                    with own.transaction() as connection:
                        connection.execute("UPDATE runs SET heartbeat = ? WHERE id = ?", (time.time(), self.id))
        except Exception as trouble:  # raised again where the run will see it
            self._trouble = trouble

    def check(self) -> None:
        """Raise what befell the heartbeat, if anything did."""
        if self._trouble is not None:
            raise self._trouble

    def bury_the_dead(self) -> None:
        """Free the cells of the runs that were killed."""
        if dead := [run for run, alive in lives(self.store) if not alive]:
            _bury(self.store, dead)

    def take(self, cells: Sequence[tuple[str, Cell]], *, failed_too: bool) -> dict[str, str]:
        """Take those of the cells, given with their keys, that are free; the answer is the status of the others.

        A cell is free that the store does not have; with `failed_too`, one that failed is free as well.
        """
        keys = [key for key, _ in cells]
        with self.store.transaction() as connection:
            if not connection.execute("SELECT 1 FROM runs WHERE id = ?", [self.id]).fetchone():
                raise StoreError(_TAKEN_OVER.format(path=self.store.path))
            if failed_too:
                connection.executemany("DELETE FROM cells WHERE key = ? AND status = 'failed'", [[key] for key in keys])
            held = self.store.statuses(keys)
            connection.executemany(
                "INSERT INTO cells (key, experiment, version, parameters, seed, status, run) "
                "VALUES (?, ?, ?, ?, ?, 'running', ?)",
                [(key, *_columns(cell), self.id) for key, cell in cells if key not in held],
            )
        return held

    def record(self, outcomes: Sequence[tuple[str, Cell, Outcome]]) -> None:
        """Write what came out, all or nothing: the arrays first, so that a row never names one that is not there."""
        for _, _, outcome in outcomes:
            for name, data in outcome.arrays.items():
                arrays.put(self.store.arrays, name, data)
        with self.store.transaction() as connection:
            for key, cell, outcome in outcomes:
                connection.execute("INSERT OR IGNORE INTO origins (facts) VALUES (?)", [outcome.origin])
                digest = None if outcome.result is None else sha256(outcome.result.encode()).hexdigest()
                status = "failed" if outcome.result is None else "done"
                came_out = (outcome.seconds, time.time(), outcome.origin, digest, outcome.result, outcome.traceback)
                connection.execute(_RECORD, (key, *_columns(cell), status, *came_out))


# A run that was frozen may wake after another did its cell: what is done stays as it is.
_RECORD = """
INSERT INTO cells (key, experiment, version, parameters, seed, status, seconds, finished, origin, digest, result,
    traceback)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM origins WHERE facts = ?), ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET status = excluded.status, run = NULL, seconds = excluded.seconds,
    finished = excluded.finished, origin = excluded.origin, digest = excluded.digest, result = excluded.result,
    traceback = excluded.traceback
WHERE status != 'done'
"""
_TAKEN_OVER = (
    "This run did not move for a long time, and another run on {path} took over its cells. What was done is kept; "
    "run the same command again to go on."
)


def _columns(cell: Cell) -> tuple[str, int, str, int]:
    return cell.experiment, cell.version, cell.parameters, cell.seed


def _bury(store: Store, runs: Sequence[str]) -> None:
    with store.transaction() as connection:
        for run in runs:
            connection.execute("DELETE FROM cells WHERE run = ? AND status = 'running'", [run])
            connection.execute("UPDATE cells SET run = NULL WHERE run = ?", [run])
            connection.execute("DELETE FROM runs WHERE id = ?", [run])
    for run in runs:
        lock_path(store.folder, run).unlink(missing_ok=True)
