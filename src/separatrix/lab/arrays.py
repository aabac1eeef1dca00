"""The folder of arrays: one file for each array, named by the SHA-256 of its bytes, and complete or absent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from separatrix.checks import is_whole
from separatrix.files import NotRegular, drafts_in, open_regular, write_whole
from separatrix.lab.faults import DamagedError, plainly

_SUFFIX = ".safetensors"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Mark:
    """The description of an array in the text of a result: the SHA-256 of its file, its dtype and its shape."""

    sha256: str
    dtype: str
    shape: tuple[int, ...]


def checked_mark(mark: Any) -> Mark:
    """The mark of an array in the text of a result; a ValueError if it does not have the form that `results.encode`
    writes."""
    match mark:
        case {"sha256": str(digest), "dtype": str(dtype), "shape": list(shape), **rest} if not rest:
            if _DIGEST.fullmatch(digest) and all(is_whole(size, low=0) for size in shape):
                return Mark(digest, dtype, tuple(shape))
    raise ValueError("the mark of an array is malformed")


def place(folder: Path, digest: str) -> Path:
    """The path of the file of the array with this SHA-256."""
    return folder / digest[:2] / f"{digest}{_SUFFIX}"


def put(folder: Path, digest: str, data: bytes) -> None:
    """Write an array's file, unless it exists with the right bytes."""
    target = place(folder, digest)
    with plainly(target):
        if not (target.exists() and sha256(_read(target)).hexdigest() == digest):
            write_whole(target, data)


def _read(path: Path) -> bytes:
    with open(open_regular(path), "rb") as file:
        return file.read()


def fetch(folder: Path, digest: str) -> bytes:
    """The bytes of an array's file, checked against its name.

    Raises:
        DamagedError: if the file is missing or damaged.
    """
    source = place(folder, digest)
    with plainly(source):
        try:
            data = _read(source)
        except FileNotFoundError:
            raise DamagedError(f"{source} is missing. {REMEDY}") from None
        except NotRegular:
            raise DamagedError(f"{source} is not a regular file. {REMEDY}") from None
    if sha256(data).hexdigest() != digest:
        raise DamagedError(f"{source} does not have the SHA-256 in its name. {REMEDY}")
    return data


REMEDY = (
    "Restore it from a copy, or run the command that made it again: a cell that is damaged counts as not run. "
    "`separatrix store gc --damaged` removes the cell."
)


def marks_in(result: str) -> list[Mark]:
    """The marks of all arrays in the text of a result."""
    marks: list[Mark] = []

    def note(inner: dict[str, Any]) -> dict[str, Any]:
        if inner.keys() == {"$array"}:
            marks.append(checked_mark(inner["$array"]))
        return inner

    if '"$array"' in result:
        json.loads(result, object_hook=note)
    return marks


def named_in(result: str) -> list[str]:
    """The SHA-256 of each array in the text of a result."""
    return [mark.sha256 for mark in marks_in(result)]


def files(folder: Path) -> Iterator[Path]:
    """The arrays in the folder, and files that a killed run left incomplete.

    Files with names that `put` does not make are ignored, and symlinks are not followed.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    for shelf in sorted(folder.iterdir()):
        if not re.fullmatch("[0-9a-f]{2}", shelf.name) or shelf.is_symlink() or not shelf.is_dir():
            continue
        drafts = drafts_in(shelf)
        for path in sorted(shelf.iterdir()):
            is_array = path.suffix == _SUFFIX and _DIGEST.fullmatch(path.stem)
            if (is_array or path in drafts) and not path.is_symlink() and path.is_file():
                yield path
