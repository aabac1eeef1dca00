"""What a training run that the page started leaves in its folder, and how it stands, read back from there alone.

``<store>/training/run-0001/`` has ``run.json`` (what was asked for), the records and the checkpoint of `separatrix
train selection`, ``weights/``, ``output.txt`` (what the command said), ``stop`` (once someone asked for it) and
``end.json`` (once it ended). ``<store>/training/lock`` is locked while a run is alive and names it, so that there is
one at a time, whichever explorer started it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

TRAINING, LOCK = "training", "lock"
COMMAND, OUTPUT, STOP, END, WEIGHTS = "run.json", "output.txt", "stop", "end.json", "weights"
FOLDER = re.compile(r"run-[0-9]{4}")


@dataclass(frozen=True)
class Standing:
    """How a run stands, in a word and in a sentence; `alive` while it runs, `resumable` when it could go on."""

    word: str
    said: str
    alive: bool = False
    resumable: bool = False


def alive(store: Path) -> str | None:
    """The name of the run that is alive, if one is."""
    try:
        handle = os.open(store / TRAINING / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return os.read(handle, 64).decode("ascii").strip() if _is_locked(handle) else None
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    if sys.platform == "win32":  # where no run can be started
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


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
            return Standing("failed", last_words(folder))
    said = "It was cut off with no word; it can go on from its last checkpoint."
    return Standing("cut off", said, resumable=True)


def told(path: Path) -> dict[str, Any] | None:
    """A small file of JSON, or None if there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return found


def last_words(folder: Path, most: int = 400) -> str:
    """What the command said last: what made it fail."""
    try:
        with (folder / OUTPUT).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except FileNotFoundError:
        lines = []
    return f"It failed: {lines[-1]}" if lines else "It failed with no word."


def step_of(header: bytes) -> int:
    """The step in the first bytes of a checkpoint, which are its header."""
    length = int.from_bytes(header[:8], "little")
    return int(json.loads(header[8 : 8 + length])["__metadata__"]["step"])
