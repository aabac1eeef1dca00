"""A training run that the page started: its process, read back from a folder alone.

The run itself is in the store, as every run of `separatrix train selection`. ``<store>/training/<name of the run>/``
has what concerns its process: ``run.json`` (what was asked for), ``output.txt`` (what the command said), ``stop`` (once
someone asked for it) and ``end.json`` (once it ended). ``<store>/training/lock`` is locked while a run is alive and
names it, so that there is one at a time, whichever explorer started it.

The folder may come from somebody else: no symlink in it is followed, and whatever its files say is checked.
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
"""The largest file of JSON that is read."""


@dataclass(frozen=True)
class RunStatus:
    """How a run stands, in a word and in a sentence; `alive` while it runs, `resumable` when it could go on."""

    word: str
    said: str
    alive: bool = False
    resumable: bool = False


def alive(store: Path) -> str | None:
    """Give the name of the run that is alive, if one is."""
    lock = store / TRAINING / LOCK
    if os.name != "posix" or not is_held(lock):
        return None
    name = _first_bytes(lock).decode("ascii", "replace").strip()
    return name if NAME.fullmatch(name) else None


def standing(store: Path, name: str) -> RunStatus:
    """How the run of that name stands."""
    folder = store / TRAINING / name
    if alive(store) == name:
        if (folder / STOP).exists():
            return RunStatus("stopping", "It was asked to stop, and writes down what it has.", alive=True)
        return RunStatus("running", "It runs on this machine.", alive=True)
    match (told(folder / END) or {}).get("how"):
        case "finished":
            return RunStatus("finished", "All steps are done.")
        case "stopped":
            return RunStatus("stopped", "It was stopped; it can go on from its last checkpoint.", resumable=True)
        case "ended with the explorer":
            said = "It ended when the explorer did; it can go on from its last checkpoint."
            return RunStatus("stopped", said, resumable=True)
        case "failed":
            return RunStatus("failed", last_line(folder))
    said = "It ended without a message; it can go on from its last checkpoint."
    return RunStatus("cut off", said, resumable=True)


def told(path: Path) -> dict[str, Any] | None:
    """The object in a small file of JSON; None if there is no such file, or if it holds anything else."""
    try:
        content = json.loads(_first_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _first_bytes(path: Path) -> bytes:
    with open(open_regular(path), "rb") as file:
        return file.read(MOST_BYTES)


def run_folder(store: Path, name: str) -> Path:
    """The folder of a run, for writing; an error if it, or the one above it, is a symlink to another folder."""
    folder = store / TRAINING / name
    for path in (folder.parent, folder):
        if path.is_symlink():
            raise SeparatrixError(f"{path} is a symlink, which the explorer does not make. Remove it, and try again.")
    return folder


def open_output(folder: Path) -> BinaryIO:
    """Open the file of what a command says, to add to it."""
    return open(open_regular(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def last_line(folder: Path, most: int = 400) -> str:
    """Give the last line of what the command said, which tells what made it fail."""
    try:
        with open(open_regular(folder / OUTPUT), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except (FileNotFoundError, NotRegular):
        lines = []
    return f"It failed: {lines[-1]}" if lines else "It failed without a message."
