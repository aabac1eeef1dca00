"""The folder of arrays: a file per content, named by its SHA-256, whole or absent whatever happens."""

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
    """Where the array of this digest lies."""
    return folder / digest[:2] / f"{digest}{_SUFFIX}"


def put(folder: Path, digest: str, data: bytes) -> None:
    """Write an array's file, unless the same bytes are there already."""
    target = place(folder, digest)
    with plainly(target):
        if not (target.exists() and sha256(target.read_bytes()).hexdigest() == digest):
            write_whole(target, data)


def fetch(folder: Path, digest: str) -> bytes:
    """The bytes of an array's file, checked against its name."""
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
    "Bring it back from a copy, or run the command that made it again: a cell that is damaged counts as not run. "
    "`separatrix store gc --damaged` forgets it."
)


def named_in(result: str) -> Iterator[str]:
    """The digests of the arrays that the text of a result names."""
    found: list[str] = []

    def note(inner: dict[str, Any]) -> dict[str, Any]:
        if inner.keys() == {"$array"}:
            found.append(inner["$array"]["sha256"])
        return inner

    if '"$array"' in result:
        json.loads(result, object_hook=note)
    return iter(found)


def files(folder: Path) -> Iterator[Path]:
    """Every file in the folder: arrays, and those that a killed run left half written."""
    return iter(sorted(folder.glob("??/*")))
