"""The lease by which a run takes cells of a store, shows that it is alive, and writes results.

Two runs on one store do not run the same cell: a run takes a cell in a transaction, and keeps it while it is alive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from threading import Event, Thread
from typing import Self
from uuid import uuid4

from separatrix.files import hold, make_folder
from separatrix.lab import arrays, rows
from separatrix.lab.alive import Watch, beat, forget, lock_path
from separatrix.lab.cell import Cell
from separatrix.lab.faults import StoreError, plainly
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store
from separatrix.lab.worker import CellOutcome

BEAT_SECONDS = 5.0


class Lease:
    """The lease of the run that this process drives; use it as a context manager.

    No other class writes cells of a store during a run.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = uuid4().hex
        self._lock = -1
        self._stop = Event()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)
        self._trouble: Exception | None = None
        self._watch = Watch(store.folder)

    def __enter__(self) -> Self:
        path = lock_path(self.store.folder, self.id)
        with plainly(path):
            make_folder(path.parent)
            # Another process may hold the lock briefly while it checks whether the lock is held.
            self._lock = hold(path, wait=True)
        try:
            self.free_abandoned_cells()
        except BaseException:
            self._let_go()
            raise
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            # After an error of the store nothing is written: once the lock is released, the next run frees the cells.
            if kind is None or not issubclass(kind, StoreError):
                self._free([self.id])
        finally:
            self._let_go()

    def _let_go(self) -> None:
        path = lock_path(self.store.folder, self.id)
        with plainly(path):
            try:
                path.unlink(missing_ok=True)
            finally:
                os.close(self._lock)

    def _beat(self) -> None:
        try:
            count = 0
            while not self._stop.wait(BEAT_SECONDS):
                count += 1
                beat(self._lock, count)
        except Exception as trouble:  # `check` raises this error in the thread of the run
            self._trouble = trouble

    def check(self) -> None:
        """Raise the error that ended the heartbeat, if there is one."""
        if self._trouble is not None:
            with plainly(lock_path(self.store.folder, self.id)):
                raise self._trouble

    def free_abandoned_cells(self) -> None:
        """Free the cells of other runs that were killed or whose counters have stopped."""
        runs = [run for (run,) in self.store.ask("SELECT DISTINCT run FROM cells WHERE run IS NOT NULL")]
        if abandoned := [run for run in runs if run != self.id and self._watch.abandoned(run)]:
            self._free(abandoned)

    def _free(self, runs: Iterable[object]) -> None:
        with self.store.transaction() as connection:
            for run in runs:
                connection.execute("DELETE FROM cells WHERE run = ? AND status = 'running'", [run])
                if run != self.id:
                    # Remove the lock file before the commit: a suspended run that resumes finds its file missing, and
                    # takes no more cells.
                    forget(self.store.folder, run)

    def take(self, cells: Sequence[tuple[str, Cell]], *, failed_too: bool) -> dict[str, str]:
        """Claim those of the cells that are free.

        A cell is free if the store does not have it, or if it is damaged there.

        Args:
            cells: the cells with their keys.
            failed_too: whether a cell that failed is free as well.

        Returns:
            The status of each cell that is not free, by its key.
        """
        free = ("damaged", "failed") if failed_too else ("damaged",)
        with self.store.transaction() as connection:
            if not os.fstat(self._lock).st_nlink:
                raise StoreError(_TAKEN_OVER.format(path=self.store.path))
            statuses = self.store.statuses([key for key, _ in cells])
            held = {key: status for key, status in statuses.items() if status not in free}
            taken = [StoredRecord(key, cell, "running", self.id) for key, cell in cells if key not in held]
            connection.executemany(rows.PUT, [record.values for record in taken])
        return held

    def record(self, outcomes: Sequence[tuple[str, Cell, CellOutcome]]) -> None:
        """Write the outcomes of cells, all or none; the arrays first, so that no row names an array that is missing."""
        files = {name: data for _, _, outcome in outcomes for name, data in outcome.arrays.items()}
        for name, data in files.items():
            arrays.put(self.store.arrays, name, data)
        with self.store.transaction() as connection:
            for name, data in files.items():
                if not arrays.place(self.store.arrays, name).exists():  # removed by `gc` before any row referenced it
                    arrays.put(self.store.arrays, name, data)
            done = self.store.statuses([key for key, _, _ in outcomes])
            for key, cell, outcome in outcomes:
                # A run that was suspended may continue after another run did its cell: a result is not overwritten.
                if done.get(key) != "done":
                    rows.put(connection, _came_out(key, cell, outcome))


_TAKEN_OVER = (
    "This run was suspended for a long time, and another run on {path} took over its cells. Finished cells are kept; "
    "run the same command again to continue."
)


def _came_out(key: str, cell: Cell, outcome: CellOutcome) -> StoredRecord:
    status = "failed" if outcome.result is None else "done"
    # A traceback may quote characters that UTF-8 cannot encode.
    traceback = outcome.traceback and outcome.traceback.encode("utf-8", "backslashreplace").decode()
    return StoredRecord(
        key, cell, status, None, outcome.seconds, time.time(), outcome.origin, outcome.result, traceback
    )
