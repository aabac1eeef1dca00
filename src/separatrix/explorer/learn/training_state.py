"""The status of training runs that were started from the page, read from their folders.

The run itself is in the store, like every run of `separatrix train selection`. ``<store>/training/<name of the run>/``
has the files of its process: ``run.json`` (the settings), ``output.txt`` (the output of the command), ``stop`` (a
request to stop) and ``end.json`` (how it ended). ``<store>/training/lock`` is locked while a run is alive and has its
name, so that there is one run at a time for all explorers of a store.

The folder may come from an untrusted source: symlinks in it are not followed, and the contents of its files are
checked.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from separatrix.errors import SeparatrixError
from separatrix.files import NotRegular, is_held, open_regular

TRAINING, LOCK = "training", "lock"
COMMAND, OUTPUT, STOP, END = "run.json", "output.txt", "stop", "end.json"
NAME = re.compile(r"run-[0-9a-f]{12}")
MOST_BYTES = 1 << 16
"""The size in bytes of the largest JSON file that is read."""


@dataclass(frozen=True)
class RunStatus:
    """The status of a run as a word and as a sentence; `alive` while it runs, `resumable` if it can be resumed."""

    word: str
    message: str
    alive: bool = False
    resumable: bool = False


FINISHED = RunStatus("finished", "All steps are done.")


def alive(store: Path) -> str | None:
    """The name of the run that is alive, or None."""
    lock = store / TRAINING / LOCK
    if os.name != "posix" or not is_held(lock):
        return None
    name = _first_bytes(lock).decode("ascii", "replace").strip()
    return name if NAME.fullmatch(name) else None


def run_status(store: Path, name: str) -> RunStatus:
    """The status of a run by its name."""
    folder = store / TRAINING / name
    if alive(store) == name:
        if (folder / STOP).exists():
            return RunStatus("stopping", "The run was asked to stop and is writing its checkpoint.", alive=True)
        return RunStatus("running", "The run is in progress on this machine.", alive=True)
    match (read_json(folder / END) or {}).get("how"):
        case "finished":
            return FINISHED
        case "stopped":
            return RunStatus(
                "stopped", "The run was stopped; it can be resumed from its last checkpoint.", resumable=True
            )
        case "ended with the explorer":
            message = "The run ended with the explorer; it can be resumed from its last checkpoint."
            return RunStatus("stopped", message, resumable=True)
        case "failed":
            return RunStatus("failed", last_line(folder))
    message = "The run ended without a message; it can be resumed from its last checkpoint."
    return RunStatus("cut off", message, resumable=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read the object of a small JSON file; None if there is no such file or if it has anything else."""
    try:
        content = json.loads(_first_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _first_bytes(path: Path) -> bytes:
    with open(open_regular(path), "rb") as file:
        return file.read(MOST_BYTES)


def run_folder(store: Path, name: str) -> Path:
    """The folder of a run; a `SeparatrixError` if it or its parent is a symlink."""
    folder = store / TRAINING / name
    for path in (folder.parent, folder):
        if path.is_symlink():
            raise SeparatrixError(f"{path} is a symlink, which the explorer does not make. Remove it, and try again.")
    return folder


def open_output(folder: Path) -> BinaryIO:
    """Open the output file of a run for appending."""
    return open(open_regular(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def last_line(folder: Path, most: int = 400) -> str:
    """The error message of a failed run: the last line of its output."""
    try:
        with open(open_regular(folder / OUTPUT), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except (FileNotFoundError, NotRegular):
        lines = []
    return f"The run failed: {lines[-1]}" if lines else "The run failed without a message."
