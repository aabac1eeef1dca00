"""Whether a run is alive, decided by a lock and a counter instead of the clock, which may jump.

A run holds the lock of its own file in ``runs/``, which the system releases when the process ends in any way. The run
also increases a counter in that file. If a process is suspended, or a lock on a network folder is not released, the
counter stops: a process that sees no change for `STALE_SECONDS` may take over the run's cells.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from separatrix.files import is_held

STALE_SECONDS = 300.0
_NAME = re.compile(r"[0-9a-f]{32}")


def lock_path(folder: Path, run: str) -> Path:
    """The path of the file whose lock a run holds while it is alive."""
    return folder / "runs" / f"{run}.lock"


def lives(folder: Path, run: object) -> bool:
    """Whether the run of this name holds its lock; False for a value, from a damaged row, that cannot be a name."""
    return isinstance(run, str) and bool(_NAME.fullmatch(run)) and is_held(lock_path(folder, run))


def living(folder: Path) -> list[str]:
    """The names of the runs on a store that hold their locks."""
    return [file.stem for file in locks(folder) if lives(folder, file.stem)]


def locks(folder: Path) -> Iterator[Path]:
    """The lock files of all runs, alive or killed; none if ``runs`` is a symlink."""
    if (folder / "runs").is_symlink():
        return iter(())
    return iter(sorted(file for file in (folder / "runs").glob("*.lock") if _NAME.fullmatch(file.stem)))


def forget(folder: Path, run: object) -> None:
    """Remove the lock file of a run that was killed or abandoned."""
    if isinstance(run, str) and _NAME.fullmatch(run):
        lock_path(folder, run).unlink(missing_ok=True)


def beat(handle: int, count: int) -> None:
    """Write the counter into the lock file of this run."""
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, b"%020d" % count)


class Watch:
    """Watches the counters of the runs on a store, to find runs that were killed or are suspended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[bytes, float]] = {}

    def abandoned(self, run: object) -> bool:
        """Whether a run was killed, or its counter has not changed for `STALE_SECONDS` while this object watched it."""
        if not isinstance(run, str) or not lives(self._folder, run):
            return True
        try:
            count = lock_path(self._folder, run).read_bytes()
        except FileNotFoundError:
            return True
        before, since = self._seen.setdefault(run, (count, time.monotonic()))
        if before != count:
            self._seen[run] = (count, time.monotonic())
            return False
        return time.monotonic() - since >= STALE_SECONDS
