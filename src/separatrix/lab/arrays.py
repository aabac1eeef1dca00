"""The folder of arrays: a file per content, named by its SHA-256, whole or absent whatever happens.

A file is written under another name, flushed to the disk, and renamed: a reader sees all of it or none of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from separatrix.lab.faults import StoreError, plainly

_SUFFIX = ".safetensors"


def place(folder: Path, digest: str) -> Path:
    """Where the array of this digest lies."""
    return folder / digest[:2] / f"{digest}{_SUFFIX}"


def put(folder: Path, digest: str, data: bytes) -> None:
    """Write an array's file, unless the same bytes are there already."""
    target = place(folder, digest)
    with plainly(target):
        if target.exists() and sha256(target.read_bytes()).hexdigest() == digest:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{uuid4().hex}.draft")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    # The name of a new file is the folder's content, and reaches the disk with it.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def fetch(folder: Path, digest: str) -> bytes:
    """The bytes of an array's file, checked against its name."""
    source = place(folder, digest)
    if not source.exists():
        raise StoreError(f"{source} is missing. {_REMEDY}")
    with plainly(source):
        data = source.read_bytes()
    if sha256(data).hexdigest() != digest:
        raise StoreError(f"{source} does not hold what its name says. {_REMEDY}")
    return data


_REMEDY = (
    "Bring it back from a copy, or run `separatrix store gc --damaged`: the cells that need it will be done again."
)


def files(folder: Path) -> Iterator[Path]:
    """Every file in the folder: arrays, and those that a killed run left half written."""
    return iter(sorted(folder.glob("??/*")))
