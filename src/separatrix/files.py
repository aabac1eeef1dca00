"""Writes files atomically, readable by their user only and flushed to the disk, and locks files.

A file is written under another name in the same folder, flushed to the disk, and renamed. The folder contains the name,
so the folder is flushed too. After a kill or a power cut at any moment, a reader finds the old file or the new one, and
never a part of one. The name of a file that a killed writer left ends in ``.draft``.

A lock is a file that a process holds with `flock`; the system releases it when the process ends in any way.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     write_whole(Path(folder, "new", "note.txt"), b"all of it")
...     Path(folder, "new", "note.txt").read_bytes(), [file.name for file in Path(folder, "new").iterdir()]
(b'all of it', ['note.txt'])
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

if sys.platform != "win32":
    import fcntl

__all__ = [
    "Held",
    "NotRegular",
    "draft_folder",
    "drafts_in",
    "held",
    "hold",
    "hold_bytes",
    "is_held",
    "link_in_place",
    "make_folder",
    "open_regular",
    "put_in_place",
    "read_at_most",
    "write_whole",
]

_PIECE = 1 << 20
_FOR_THE_USER = 0o600
_FOLDER_FOR_THE_USER = 0o700
_DRAFT = re.compile(r"\.[0-9a-f]{32}\.draft\Z")


class Held(Exception):
    """Another process holds the lock."""


class NotRegular(OSError):
    """A path is a symlink, a folder, a pipe or a device, where a regular file must be."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: after an error the old file is unchanged. Missing folders are created."""
    make_folder(path.parent)
    draft = _draft_of(path)
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_USER), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`; it is removed at the end of the block, unless it was renamed to `path`."""
    draft = _draft_of(path.absolute())
    try:
        make_folder(draft)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a completely written file or folder, and flush the new name to the disk."""
    os.replace(draft, path)
    _flush_folder(path.absolute().parent)


def link_in_place(draft: Path, path: Path) -> None:
    """Rename a completely written file and flush the name to the disk; a `FileExistsError` if the name is taken."""
    os.link(draft, path)
    _flush_folder(path.absolute().parent)


def drafts_in(folder: Path) -> list[Path]:
    """List the drafts in a folder: files and folders that killed writers left or that other processes are writing.

    Only names in this module's format are listed, and no symlinks.
    """
    return [path for path in folder.glob("*.draft") if _DRAFT.search(path.name) and not path.is_symlink()]


def _draft_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.{uuid4().hex}.draft")


def make_folder(folder: Path) -> None:
    """Make a folder that only this user can read, and the missing folders above it; an existing one is kept."""
    try:
        folder.mkdir(mode=_FOLDER_FOR_THE_USER)
    except FileNotFoundError:
        make_folder(folder.parent)
        make_folder(folder)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_at_most(path: Path, most: int) -> bytes:
    """The first bytes, at most `most`, of a file or of a pipe that another program writes to.

    Raises:
        OSError: if the file cannot be read, or if it is a named pipe that no program writes to, since reading it would
            never end.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # does not block on a pipe without a writer
    with open(handle, "rb", buffering=0) as file:
        if stat.S_ISFIFO(os.fstat(handle).st_mode):
            first = file.read(min(most, _PIECE))  # None if there is a writer that has not written yet
            if first == b"":
                raise OSError(errno.ENXIO, "it is a pipe that no program writes", str(path))
        else:
            first = None
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(handle, True)
        parts = [first or b""]
        while (left := most - sum(map(len, parts))) and (part := file.read(min(left, _PIECE))):
            parts.append(part)
        return b"".join(parts)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; never follow a symlink or wait for the other end of a pipe.

    Args:
        path: the file.
        flags: the flags of `os.open`. A file that they create can be read by this user only.

    Raises:
        NotRegular: if the path is a symlink, a folder, a pipe or a device.
        OSError: if the file cannot be opened.
    """
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | careful, _FOR_THE_USER)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise NotRegular(errno.EINVAL, "it is not a regular file", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular(errno.EINVAL, "it is not a regular file", str(path))
    return handle


def hold(path: Path, *, wait: bool = False) -> int:
    """Lock a file, and return its open descriptor; this process holds the lock until the descriptor is closed.

    Args:
        path: the file, which is created if it does not exist.
        wait: whether to wait while another process holds the lock.

    Raises:
        Held: if another process holds the lock and `wait` is False.
        NotRegular: if the path is a symlink, or anything else that is not a regular file.
    """
    while True:
        handle = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(handle, path):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise Held(path) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process removed the file before this process locked it


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a file during the block, as `hold` does."""
    handle = hold(path, wait=wait)
    try:
        yield
    finally:
        os.close(handle)


def hold_bytes(file: BinaryIO, first: int, count: int) -> None:
    """Lock some bytes of an open file until it is closed; these locks are independent of those of `hold`.

    Raises:
        Held: another process has locked one of these bytes.
    """
    if sys.platform != "win32":
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        except BlockingIOError:
            raise Held(file.name) from None


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a file; on Windows, which has no such locks, whether the file exists.

    False for a symlink and for anything else that is not a regular file, which `hold` never locks.
    """
    try:
        handle = open_regular(path)
    except (FileNotFoundError, NotRegular):
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
