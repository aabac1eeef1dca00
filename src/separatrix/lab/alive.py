"""Whether a run lives.

It does while it holds the lock of its own file, which the system lets go when the process ends in any way, and while
its heartbeat is fresh, which covers a process that was frozen and a folder shared by several machines.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from separatrix.lab.store import Store

if sys.platform != "win32":
    import fcntl

STALE_SECONDS = 300.0


def lock_path(folder: Path, run: str) -> Path:
    """The file whose lock a run holds while it lives."""
    return folder / "runs" / f"{run}.lock"


def lives(store: Store) -> list[tuple[str, bool]]:
    """Every run that the store knows of, and whether it lives."""
    found = list(store.ask("SELECT id, heartbeat FROM runs"))
    return [(run, time.time() - beat < STALE_SECONDS and _locked(lock_path(store.folder, run))) for run, beat in found]


def _locked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        return True
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
