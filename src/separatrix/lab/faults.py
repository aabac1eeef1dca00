"""Errors of a store, with messages that say what to do."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from separatrix.errors import SeparatrixError


class StoreError(SeparatrixError):
    """A store cannot be read or written."""


class DamagedError(StoreError):
    """A store or one of its arrays does not match its checksums."""


_FULL = (
    "{path} could not grow: the disk is full or a size limit was reached ({error}). Every cell that was done is kept; "
    "make room and run the same command again."
)
_UNWRITABLE = (
    "{path} cannot be opened ({error}). Make the folder readable and writable, or choose another one with --store."
)
_DAMAGED = (
    "{path} is damaged, or is not a store ({error}). It was not changed: restore it from a copy, or run "
    "`separatrix store gc --damaged --store {folder}`, which keeps every cell that can be read, keeps the damaged file "
    "under another name, and lets the next run do the other cells again."
)
_NOT_REGULAR = (
    "{path} is a symlink, or not a regular file ({error}), which a store does not make. Remove it, or choose another "
    "folder with --store."
)
_UNUSABLE_NAME = "{path} cannot be the name of a file ({error}). Choose another folder with --store."
_BUSY = "{path} is locked by another program ({error}). Close that program, and run the same command again."
_OTHER = "{path} could not be used ({error}). Every cell that was done is kept; run the same command again."

_SENTENCES = {
    errno.ENOSPC: _FULL,
    errno.EFBIG: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _UNWRITABLE,
    errno.EPERM: _UNWRITABLE,
    errno.EROFS: _UNWRITABLE,
    errno.ENOTDIR: _UNWRITABLE,
    errno.EEXIST: _UNWRITABLE,
    errno.EINVAL: _NOT_REGULAR,  # the same wording as in `files.NotRegular`
    errno.ENAMETOOLONG: _UNUSABLE_NAME,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR_WRITE": _FULL,
    "SQLITE_IOERR_FSYNC": _FULL,
    "SQLITE_IOERR_TRUNCATE": _FULL,
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "SQLITE_IOERR": _OTHER,
    "SQLITE_READONLY": _UNWRITABLE,
    "SQLITE_CANTOPEN": _UNWRITABLE,
    "SQLITE_PERM": _UNWRITABLE,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_INTERRUPT": _DAMAGED,  # the limit of `schema.limit_steps`
    "SQLITE_CONSTRAINT": _DAMAGED,  # two rows have one key if an index is damaged
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
}


def damaged(path: Path, how: object) -> DamagedError:
    """The error for a damaged file of a store; `how` describes the damage."""
    return DamagedError(_DAMAGED.format(path=path, folder=path.parent, error=how))


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Turn errors of the disk and of SQLite in the block into a `StoreError` about `path`."""
    try:
        yield
    except OSError as error:
        message = _SENTENCES.get(error.errno or 0, _OTHER)
        raise StoreError(message.format(path=error.filename or path, error=error.strerror or error)) from error
    except UnicodeDecodeError as error:  # SQLite quotes bytes of a damaged file in its message
        raise damaged(path, "SQLite: its tables are malformed") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        # An extended name adds to the plain one: SQLITE_IOERR_WRITE, SQLITE_BUSY_RECOVERY.
        sentence = _SENTENCES.get(name) or _SENTENCES.get("_".join(name.split("_")[:2]))
        if sentence is None:
            raise  # a mistake in the program, not in the store
        if sentence is _DAMAGED:
            interrupted = "a query takes more steps than a file of its size can need"
            raise damaged(path, interrupted if name == "SQLITE_INTERRUPT" else f"SQLite: {error}") from error
        raise StoreError(sentence.format(path=path, error=f"SQLite: {error}")) from error
