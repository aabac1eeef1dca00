"""A training run that the page started: its process, read back from a folder alone.

The run itself is in the store, as every run of `separatrix train selection`. ``<store>/training/<name of the run>/``
has what concerns its process: ``run.json`` (what was asked for), ``output.txt`` (what the command said), ``stop`` (once
someone asked for it) and ``end.json`` (once it ended). ``<store>/training/lock`` is locked while a run is alive and
names it, so that there is one at a time, whichever explorer started it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from separatrix.files import is_held

TRAINING, LOCK = "training", "lock"
COMMAND, OUTPUT, STOP, END = "run.json", "output.txt", "stop", "end.json"
NAME = re.compile(r"run-[0-9a-f]{12}")


@dataclass(frozen=True)
class Standing:
    """How a run stands, in a word and in a sentence; `alive` while it runs, `resumable` when it could go on."""

    word: str
    said: str
    alive: bool = False
    resumable: bool = False


def alive(store: Path) -> str | None:
    """Give the name of the run that is alive, if one is."""
    lock = store / TRAINING / LOCK
    return lock.read_text("ascii").strip() if os.name == "posix" and is_held(lock) else None


def standing(store: Path, name: str) -> Standing:
    """How the run of that name stands."""
    folder = store / TRAINING / name
    if alive(store) == name:
        if (folder / STOP).exists():
            return Standing("stopping", "It was asked to stop, and writes down what it has.", alive=True)
        return Standing("running", "It runs on this machine.", alive=True)
    end = told(folder / END)
    match end and end["how"]:
        case "finished":
            return Standing("finished", "All steps are done.")
        case "stopped":
            return Standing("stopped", "It was stopped; it can go on from its last checkpoint.", resumable=True)
        case "ended with the explorer":
            said = "It ended when the explorer did; it can go on from its last checkpoint."
            return Standing("stopped", said, resumable=True)
        case "failed":
            return Standing("failed", last_line(folder))
    said = "It ended without a message; it can go on from its last checkpoint."
    return Standing("cut off", said, resumable=True)


def told(path: Path) -> dict[str, Any] | None:
    """A small file of JSON, or None if there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return found


def last_line(folder: Path, most: int = 400) -> str:
    """Give the last line of what the command said, which tells what made it fail."""
    try:
        with (folder / OUTPUT).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except FileNotFoundError:
        lines = []
    return f"It failed: {lines[-1]}" if lines else "It failed without a message."
