"""Whether a run lives. No clock of the day is asked: it may jump.

A run holds the lock of its own file in ``runs/``, which the system lets go when the process ends in any way. It also
counts up in that file, which tells a process that was frozen, or a lock on a folder of another machine's that is not
let go: whoever watches the file and sees the count stand still for `STALE_SECONDS` of its own time may take over.
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
    """The file whose lock a run holds while it lives."""
    return folder / "runs" / f"{run}.lock"


def lives(folder: Path, run: object) -> bool:
    """Whether the run of this name holds its lock. What no run is called, in a damaged row, does not live."""
    return isinstance(run, str) and bool(_NAME.fullmatch(run)) and is_held(lock_path(folder, run))


def living(folder: Path) -> list[str]:
    """The runs on a store that hold their locks."""
    return [file.stem for file in locks(folder) if lives(folder, file.stem)]


def locks(folder: Path) -> Iterator[Path]:
    """The files of runs, of those that live and those that were killed."""
    return iter(sorted(file for file in (folder / "runs").glob("*.lock") if _NAME.fullmatch(file.stem)))


def forget(folder: Path, run: object) -> None:
    """Remove the file of a run that was killed or is given up."""
    if isinstance(run, str) and _NAME.fullmatch(run):
        lock_path(folder, run).unlink(missing_ok=True)


def beat(handle: int, count: int) -> None:
    """Count up in the file of a run that lives."""
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, b"%020d" % count)


class Watch:
    """Watches the runs on a store: which of them have been killed, or stand still."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[bytes, float]] = {}

    def dead(self, run: object) -> bool:
        """Whether a run has been killed, or has not moved for `STALE_SECONDS` of this watch."""
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
