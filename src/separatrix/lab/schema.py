"""The SQLite file of a store: its tables, how it is opened, and which files raise an error.

A file is a store if the definitions of its tables are exactly those of its schema below; if any other fixed property is
wrong, the file is damaged. A file of another schema raises an error, and a database of another program is not changed.

A file may come from an untrusted source. Its views, triggers and generated columns never run, because the tables are
compared before they are read; SQLite checks every page, and a query that takes more steps than a file of its size can
need is interrupted.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from separatrix.files import open_regular
from separatrix.lab.faults import StoreError, damaged

SCHEMA = 2
"""The version of the tables, increased by each change that an older reader would misread."""

WAIT_SECONDS = 60.0
_APPLICATION = 0x53455058  # "SEPX", the application id of the file in SQLite's header
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_TABLES = {
    "origins": "CREATE TABLE origins (id TEXT PRIMARY KEY, facts TEXT NOT NULL)",
    "cells": """CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    experiment TEXT NOT NULL,
    version INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    seed INTEGER NOT NULL,
    status TEXT NOT NULL,
    run TEXT,
    seconds REAL,
    finished REAL,
    origin TEXT,
    result TEXT,
    traceback TEXT,
    seal TEXT NOT NULL
)""",
    "cells_of_run": "CREATE INDEX cells_of_run ON cells (run) WHERE run IS NOT NULL",
}
_INDEXED = ("origins", "cells")
_MADE: set[tuple[str, str, str, str | None]] = {
    *(("table", name, name, _TABLES[name]) for name in _INDEXED),
    *(("index", f"sqlite_autoindex_{name}_1", name, None) for name in _INDEXED),
    ("index", "cells_of_run", "cells", _TABLES["cells_of_run"]),
}
"""The rows of ``sqlite_schema`` for the tables; SQLite adds an index for a column that is UNIQUE or the PRIMARY KEY."""
_STEPS, _STEPS_PER_BYTE, _STEPS_PER_BATCH = 1_000_000, 1, 10_000
"""The largest number of steps of SQLite's machine for a query: a constant, a number per byte of the file, and the batch
size.

A row takes some hundred bytes of the file; reading or checking it takes less than a tenth of a step per byte."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a file, in one of SQLite's modes (``ro``, ``rw``, ``rwc``).

    Raises:
        DamagedError: if the folder has a rollback journal of the file that names a super-journal, as no journal of a
            store does. SQLite would delete the file of that name, which may be any file of this user.
    """
    if _names_another_file(path.with_name(f"{path.name}-journal")):
        raise damaged(path, "its rollback journal names another file")
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
    # In a damaged file bytes may not be valid text. Such bytes are replaced by escapes instead of raising an error
    # here, and the checksum of the row detects the damage.
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _names_another_file(journal: Path) -> bool:
    """Whether a rollback journal ends with the name of a super-journal, which SQLite marks by these eight bytes."""
    try:
        with open(open_regular(journal), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOURNAL)))
            return file.read() == _JOURNAL
    except FileNotFoundError:
        return False


def limit_steps(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite interrupt a query that takes more steps than the file at `path` can need, such as an endless one."""
    files = (path, path.with_name(f"{path.name}-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    batches = iter(range((_STEPS + _STEPS_PER_BYTE * size) // _STEPS_PER_BATCH))
    connection.set_progress_handler(lambda: next(batches, None) is None, _STEPS_PER_BATCH)


def unlimit_steps(connection: sqlite3.Connection) -> None:
    """Let the next statements take any number of steps, as a transaction of many rows does."""
    connection.set_progress_handler(None, 0)


def make(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables if the file has none, and flush every commit to disk."""
    is_new = check(connection, path)  # before the log is switched on, which would write to another program's file
    _switch_log_on(connection)
    connection.execute("PRAGMA synchronous = FULL")
    if is_new:
        check_writable(connection, path)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _tables(connection):
            _make_tables(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_writable(connection: sqlite3.Connection, path: Path) -> None:
    """Raise a `DamagedError` if SQLite refuses to write a store's file although this user may write it.

    Two bytes of the file are the versions of its format. If damage turns one of them into a version that SQLite does
    not support, it refuses to write: sometimes when a transaction begins, and sometimes only when something is written.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM cells WHERE 0")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY or not (writable(path) and writable(path.parent)):
            raise
        raise damaged(path, f"SQLite: {error}") from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _switch_log_on(connection: sqlite3.Connection) -> None:
    """Switch the write-ahead log on, and try again while another process does the same.

    If two processes have read the file and both want to write it, SQLite raises an error for one of them at once,
    because otherwise each would wait for the other forever.
    """
    until = time.monotonic() + WAIT_SECONDS
    connection.execute("PRAGMA page_size = 4096")
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has the tables of a store; False if it is still empty, and an error if it has anything else."""
    try:
        connection.execute("BEGIN")  # all is read in one transaction, as another process may be making the store
        try:
            schema, application = int(pragma(connection, "user_version")), int(pragma(connection, "application_id"))
            encoding, tables = pragma(connection, "encoding"), _tables(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise damaged(path, f"SQLite: {error}") from error
    if tables == _MADE:
        if (schema, application, encoding) != (SCHEMA, _APPLICATION, "UTF-8"):
            raise damaged(path, "its first bytes were modified")
        return True
    if application == _APPLICATION and schema > 0 and schema != SCHEMA:
        age = "a newer" if schema > SCHEMA else "an older"
        raise StoreError(
            f"{path} was written by {age} separatrix (schema {schema}; this one knows {SCHEMA}). "
            "Use that version of separatrix, or choose another folder with --store."
        )
    ours = {name for _, name, *_ in _MADE} & {name for _, name, *_ in tables}
    if application == _APPLICATION or ours:
        raise damaged(path, "its tables differ from those of the schema")
    if application or schema or tables:
        raise StoreError(f"{path} is a database of another program. Choose another folder with --store.")
    return False


def has_current_tables(connection: sqlite3.Connection) -> bool:
    """Whether the tables of a file are exactly those of the current schema."""
    return _tables(connection) == _MADE


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def pragma(connection: sqlite3.Connection, name: str) -> str:
    """The value of one of SQLite's pragmas."""
    return str(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> set[tuple[str, str, str, str | None]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def writable(path: Path) -> bool:
    """Whether this user may write to a file or a folder."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
