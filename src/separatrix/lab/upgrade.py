"""Upgrades a store of schema 1 to schema 2, in one transaction.

Schema 1 had a digest of the result alone, and decided by the time of day whether a run was alive. Rows whose digest is
right get a checksum and are kept; other rows are left out, and so are cells that were running. A copy of the old file
is kept beside the new one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from separatrix.files import draft_folder, link_in_place
from separatrix.lab import rows, schema
from separatrix.lab.rows import StoredRecord
from separatrix.lab.salvage import free_name

_ROWS = """
SELECT key, experiment, version, parameters, seed, status, NULL, seconds, finished, facts, result, traceback, digest
FROM cells LEFT JOIN origins ON origins.id = cells.origin WHERE status != 'running' ORDER BY cells.id
"""


def upgrade(folder: Path) -> None:
    """Upgrade the file of a store of schema 1; do nothing if another process has done so meanwhile."""
    path = folder / "store.sqlite"
    with closing(schema.connect(path, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")  # another process that would upgrade the store waits here
        try:
            if not schema.has_current_tables(connection):
                _keep_copy(folder)
                schema.limit_steps(connection, path)
                records = [record for row in connection.execute(_ROWS) if (record := _upgraded(row)) is not None]
                schema.unlimit_steps(connection)
                schema.replace_tables(connection)
                for record in records:
                    rows.put(connection, record)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _keep_copy(folder: Path) -> None:
    """Copy the file by a connection of its own: one that is in a write transaction would wait for itself."""
    with draft_folder(folder / "schema-1") as draft:
        with (
            closing(schema.connect(folder / "store.sqlite", "rw")) as connection,
            closing(sqlite3.connect(draft / "copy.sqlite")) as copy,
        ):
            connection.backup(copy)
        link_in_place(draft / "copy.sqlite", free_name(folder, "schema-1"))


def _upgraded(row: Sequence[Any]) -> StoredRecord | None:
    """The record of a row of schema 1; None if the row is damaged."""
    *fields, digest = row
    facts, result = fields[9], fields[10]
    if not (isinstance(facts, str | None) and isinstance(result, str | None)):
        return None
    if digest != (None if result is None else sha256(result.encode()).hexdigest()):
        return None
    fields[9] = facts and rows.named(facts)
    return rows.checked_record(fields, facts)
