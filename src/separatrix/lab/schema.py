"""The SQLite file of a store: its tables, how it is opened, and which files are refused.

A file is a store if the definitions of its tables are exactly those below; if any other fixed property of it is wrong
then, it is damaged. A file of a newer schema is refused, one of an older schema is upgraded by
`separatrix.lab.upgrade`, and a database that another program made is not changed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from separatrix.lab.faults import StoreError, damaged

SCHEMA = 2
"""The version of the tables; a change that an older reader would misread increases it by one."""

WAIT_SECONDS = 60.0
_APPLICATION = 0x53455058  # "SEPX", by which SQLite marks the application that a file belongs to
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
_MADE = {
    ("table", "origins", "origins", _TABLES["origins"]),
    ("index", "sqlite_autoindex_origins_1", "origins", None),
    ("table", "cells", "cells", _TABLES["cells"]),
    ("index", "sqlite_autoindex_cells_1", "cells", None),
    ("index", "cells_of_run", "cells", _TABLES["cells_of_run"]),
}


class OlderSchema(StoreError):
    """The store has an older schema, and must be upgraded before it is used."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a file, in one of SQLite's modes (``ro``, ``rw``, ``rwc``)."""
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
    # In a damaged file bytes may not be valid text. They are read nevertheless, and the seal shows the damage.
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    return connection


def make(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables if the file has none, and make every commit wait for the disk."""
    made = check(connection, path)  # before the log is switched on, which would write to another program's file
    _switch_log_on(connection)
    connection.execute("PRAGMA synchronous = FULL")
    if made:
        check_writable(connection, path)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _tables(connection):
            for statement in _TABLES.values():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_writable(connection: sqlite3.Connection, path: Path) -> None:
    """Raise a `DamagedError` if SQLite refuses to write a store's file although this user may write it.

    Two bytes of the file are the versions of its format. If damage makes one of them a version that SQLite does not
    know, it refuses to write: sometimes when a transaction begins, and sometimes only when something is written.
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

    If two processes have read the file and both want to write it, SQLite refuses one of them at once, since both would
    wait for each other forever.
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
            raise damaged(path, "its first bytes are not those that were written")
        return True
    if application == _APPLICATION and schema > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer separatrix (schema {schema}; this one knows {SCHEMA}). "
            "Upgrade separatrix, or choose another folder with --store."
        )
    if application == _APPLICATION and schema == SCHEMA - 1:
        raise OlderSchema(
            f"{path} was written by an older separatrix, and cannot be upgraded because it is not writable. Copy the "
            "folder to a place where you can write, and use the copy."
        )
    ours = {name for _, name, *_ in _MADE} & {name for _, name, *_ in tables}
    if application == _APPLICATION or ours:
        raise damaged(path, "its tables are not those that were made")
    if application or schema or tables:
        raise StoreError(f"{path} is a database of another program. Choose another folder with --store.")
    return False


def pragma(connection: sqlite3.Connection, name: str) -> str:
    """The value of one of SQLite's pragmas."""
    return str(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> set[tuple[str, str, str, str | None]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def writable(path: Path) -> bool:
    """Whether this user may write to a file or a folder."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
