"""The folder of arrays: one file for each array, named by the SHA-256 of its bytes, and complete or absent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from separatrix.files import write_whole
from separatrix.lab.faults import DamagedError, plainly

_SUFFIX = ".safetensors"


def place(folder: Path, digest: str) -> Path:
    """The path of the file of the array with this SHA-256."""
    return folder / digest[:2] / f"{digest}{_SUFFIX}"


def put(folder: Path, digest: str, data: bytes) -> None:
    """Write an array's file, unless it exists with the right bytes."""
    target = place(folder, digest)
    with plainly(target):
        if not (target.exists() and sha256(target.read_bytes()).hexdigest() == digest):
            write_whole(target, data)


def fetch(folder: Path, digest: str) -> bytes:
    """The bytes of an array's file, checked against its name.

    Raises:
        DamagedError: if the file is missing or damaged.
    """
    source = place(folder, digest)
    with plainly(source):
        try:
            data = source.read_bytes()
        except FileNotFoundError:
            raise DamagedError(f"{source} is missing. {REMEDY}") from None
    if sha256(data).hexdigest() != digest:
        raise DamagedError(f"{source} does not hold what its name says. {REMEDY}")
    return data


REMEDY = (
    "Restore it from a copy, or run the command that made it again: a cell that is damaged counts as not run. "
    "`separatrix store gc --damaged` removes the cell."
)


def named_in(result: str) -> Iterator[str]:
    """The SHA-256 of each array that the text of a result names."""
    found: list[str] = []

    def note(inner: dict[str, Any]) -> dict[str, Any]:
        if inner.keys() == {"$array"}:
            found.append(inner["$array"]["sha256"])
        return inner

    if '"$array"' in result:
        json.loads(result, object_hook=note)
    return iter(found)


def files(folder: Path) -> Iterator[Path]:
    """All files in the folder: arrays, and files that a killed run left incomplete."""
    return iter(sorted(folder.glob("??/*")))
