"""The store: one SQLite file in a folder of results, the arrays beside it.

SQLite's write-ahead log with ``synchronous=FULL`` makes a commit whole or absent after a kill or a power cut, and lets
anyone read while a run goes on. A file of a newer layout is refused; nothing is ever deleted to make an error go away.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder, Store.create(folder) as store:
...     store.counts()
{}
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from separatrix.errors import ArgumentError
from separatrix.lab import arrays
from separatrix.lab.cell import Cell
from separatrix.lab.faults import StoreError, plainly

LAYOUT = 1
"""The version of the schema below; a change that an older reader would misread adds one."""

STATUSES = ("done", "failed", "running")

_APPLICATION = 0x53455058  # "SEPX", SQLite's mark of whose file it is
_WAIT_SECONDS = 60.0
_BATCH = 1000
_SCHEMA = """
CREATE TABLE runs (id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, heartbeat REAL NOT NULL);
CREATE TABLE origins (id INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    experiment TEXT NOT NULL,
    version INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    seed INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'running')),
    run TEXT REFERENCES runs,
    seconds REAL,
    finished REAL,
    origin INTEGER REFERENCES origins,
    digest TEXT,
    result TEXT,
    traceback TEXT
);
CREATE INDEX cells_of_run ON cells (run) WHERE run IS NOT NULL;
"""


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the store. `seconds`, `finished` (seconds since 1970) and `origin` are provenance."""

    key: str
    cell: Cell
    status: str
    seconds: float | None
    finished: float | None
    heartbeat: float | None
    run: str | None
    origin: str | None
    digest: str | None
    result: str | None
    traceback: str | None


class Store:
    """An open store. `Store.create` opens one to write, making it first if need be; `Store.open` only reads."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self.path = folder / "store.sqlite"
        self.arrays = folder / "arrays"
        self.connection = connection

    @classmethod
    def create(cls, folder: Path | str) -> Self:
        """Open the store in `folder` to read and write; make it if there is none."""
        folder = Path(folder)
        path = folder / "store.sqlite"
        with plainly(path):
            folder.mkdir(parents=True, exist_ok=True)
            connection = _connect(path, "rwc")
        return cls._checked(folder, connection, make=True)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the store in `folder` to read, also where nothing can be written."""
        folder = Path(folder)
        path = folder / "store.sqlite"
        if not path.exists():
            raise StoreError(
                f"There is no store in {folder}. `separatrix reproduce` or `separatrix sweep` makes one; "
                "--store names another folder."
            )
        log = folder / "store.sqlite-wal"
        with plainly(path):
            if _writable(path) and _writable(folder):
                connection = _connect(path, "rw")
                connection.execute("PRAGMA query_only = ON")
            elif log.exists():
                connection = _connect(path, "ro")
            else:  # nobody writes here, so SQLite may be told that the file does not change
                connection = _connect(path, "ro&immutable=1")
        return cls._checked(folder, connection, make=False)

    @classmethod
    def _checked(cls, folder: Path, connection: sqlite3.Connection, *, make: bool) -> Self:
        store = cls(folder, connection)
        try:
            with plainly(store.path):
                store._check_layout(make)
        except BaseException:
            store.close()
            raise
        return store

    def _check_layout(self, make: bool) -> None:
        if make:
            # Before the log is switched on, which would write into a file that is not ours.
            self._refuse_others()
            self._switch_log_on()
            self.connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                if self._pragma("user_version") == 0:
                    for statement in _SCHEMA.split(";"):
                        self.connection.execute(statement)
                    self.connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self.connection.execute(f"PRAGMA user_version = {LAYOUT}")
        self._refuse_others()
        if not {"runs", "origins", "cells"} <= self._tables():
            raise StoreError(f"{self.path} is empty or damaged: it has no table of cells. It was left as it is.")

    def _switch_log_on(self) -> None:
        """Ask again while another process does the same.

        Of two that have read the file and want it alone, SQLite refuses one at once, as neither would ever give way.
        """
        until = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _refuse_others(self) -> None:
        self.connection.execute("BEGIN")  # one look: another process may be making the store between two
        try:
            layout, application, tables = self._pragma("user_version"), self._pragma("application_id"), self._tables()
        finally:
            self.connection.execute("ROLLBACK")
        if application != _APPLICATION and (application or layout or tables):
            raise StoreError(f"{self.path} is a database of another program. Choose another folder with --store.")
        if layout > LAYOUT:
            raise StoreError(
                f"{self.path} was written by a newer separatrix (layout {layout}; this one knows {LAYOUT}). "
                "Upgrade separatrix, or choose another folder with --store."
            )

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _tables(self) -> set[str]:
        return {name for (name,) in self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A block that is written whole or not at all, and that no other writer interleaves with."""
        with plainly(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def ask(self, question: str, values: Sequence[Any] = ()) -> Generator[Any, None, None]:
        """The rows that answer a SQL question, one by one."""
        with plainly(self.path):
            yield from self.connection.execute(question, values)

    def statuses(self, keys: Sequence[str]) -> dict[str, str]:
        """The status of each key that the store has."""
        return dict(
            self.ask("SELECT key, status FROM cells WHERE key IN (SELECT value FROM json_each(?))", [json.dumps(keys)])
        )

    def counts(self) -> dict[tuple[str, str], int]:
        """How many cells each experiment has in each status."""
        question = "SELECT experiment, status, count(*) FROM cells GROUP BY experiment, status ORDER BY 1, 2"
        return {(experiment, status): count for experiment, status, count in self.ask(question)}

    def records(self, experiment: str | None = None, status: str | None = None) -> Iterator[Record]:
        """Every record, in the order in which the cells were first taken up."""
        yield from map(
            _record, self.ask(f"{_RECORDS}{_WHERE} ORDER BY cells.id", [experiment, experiment, status, status])
        )

    def record(self, key: str) -> Record:
        """The record whose key begins with `key`."""
        if not key or not set(key) <= set("0123456789abcdef"):
            raise ArgumentError("KEY", expected="the first hex digits of a key", got=key)
        found = [_record(row) for row in self.ask(f"{_RECORDS} WHERE key >= ? AND key < ? LIMIT 2", [key, f"{key}g"])]
        if len(found) != 1:
            problem = "more than one cell has" if found else "no cell has"
            raise StoreError(
                f"In {self.path}, {problem} a key that begins with {key}. `separatrix store ls` lists them."
            )
        return found[0]

    def result(self, record: Record) -> dict[str, Any]:
        """The result of a record that is done, its arrays loaded."""
        if record.result is None:
            raise StoreError(f"The cell {record.key} is {record.status}: it has no result.")
        from separatrix.lab import results  # numpy, which a list of cells does not need

        return results.decode(record.result, lambda digest: arrays.fetch(self.arrays, digest))

    def find(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Record | None]]:
        """Each cell with its record, or None where the store has none."""
        source = iter(cells)
        while batch := list(islice(source, _BATCH)):
            keys = [cell.key for cell in batch]
            question = f"{_RECORDS} WHERE key IN (SELECT value FROM json_each(?))"
            found = {record.key: record for record in map(_record, self.ask(question, [json.dumps(keys)]))}
            yield from ((cell, found.get(key)) for cell, key in zip(batch, keys, strict=True))


_RECORDS = """
SELECT key, experiment, version, parameters, seed, status, seconds, finished, heartbeat, run, facts, digest, result,
    traceback
FROM cells LEFT JOIN runs ON runs.id = cells.run LEFT JOIN origins ON origins.id = cells.origin
"""
_WHERE = "WHERE (? IS NULL OR experiment = ?) AND (? IS NULL OR status = ?)"


def _record(row: Sequence[Any]) -> Record:
    key, experiment, version, parameters, seed, *rest = row
    return Record(key, Cell(experiment, version, parameters, seed), *rest)


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
