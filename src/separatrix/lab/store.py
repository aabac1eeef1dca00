"""The store of results: one SQLite file in a folder, with the arrays in files in the same folder.

With SQLite's write-ahead log and ``synchronous=FULL``, a commit is complete or absent after a kill or a power cut, and
other processes can read during a run. Every row is checked against its checksum whenever it is read: the cell of a
damaged row counts as not run. Data are never deleted to make an error disappear.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder, Store.create(folder) as store:
...     store.counts()
{}
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from separatrix.errors import ArgumentError
from separatrix.files import draft_folder, link_in_place, make_folder
from separatrix.lab import arrays, rows, schema
from separatrix.lab.cell import Cell
from separatrix.lab.faults import DamagedError, StoreError, damaged, plainly
from separatrix.lab.rows import Damaged, StoredRecord

_BATCH = 1000


class Store:
    """An open store.

    `Store.create` opens a store for reading and writing and makes it if there is none; `Store.open` only reads.
    """

    def __init__(
        self, folder: Path, connection: sqlite3.Connection, copy: TemporaryDirectory[str] | None = None
    ) -> None:
        self.folder = folder
        self.path = folder / "store.sqlite"
        self.arrays = folder / "arrays"
        self.connection = connection
        self._copy = copy

    @classmethod
    def create(cls, folder: Path | str) -> Self:
        """Open the store in `folder` for reading and writing; if there is none, make one that only this user reads."""
        folder = Path(folder)
        path = folder / "store.sqlite"
        with plainly(path):
            make_folder(folder)
            if not has_store(folder):
                _make_file(path)
            store = cls(folder, schema.connect(path, "rw"))
            try:
                schema.make(store.connection, path)
                schema.check(store.connection, path)
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the store in `folder` for reading; the folder need not be writable."""
        folder = Path(folder)
        path = file_in(folder)
        with plainly(path):
            changeable = schema.writable(path) and schema.writable(folder)
            store = cls(folder, schema.connect(path, "rw")) if changeable else cls._on_a_fixed_medium(folder)
            try:
                store.connection.execute("PRAGMA query_only = ON")
                if not schema.check(store.connection, path):
                    raise damaged(path, "it has no tables: it was cut short")
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def _on_a_fixed_medium(cls, folder: Path) -> Self:
        """Open a store that this user cannot write.

        SQLite cannot read a write-ahead log without its index. If the index is missing, a copy of the file and its log
        is opened instead, for which SQLite can make one.
        """
        path = folder / "store.sqlite"
        log, index = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
        if index.exists():
            return cls(folder, schema.connect(path, "ro"))
        if not log.exists():  # no process has the store open for writing, so SQLite may assume that it does not change
            return cls(folder, schema.connect(path, "ro&immutable=1"))
        copy = TemporaryDirectory(prefix="separatrix-")
        try:
            for file in (path, log):
                shutil.copyfile(file, Path(copy.name, file.name))
            return cls(folder, schema.connect(Path(copy.name, path.name), "rw"), copy)
        except BaseException:
            copy.cleanup()
            raise

    def close(self) -> None:
        """Close the connection to the file."""
        self.connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all changes of the block are written or none, and no other process writes in between."""
        with plainly(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def check_writable(self) -> None:
        """Raise a `DamagedError` if SQLite refuses to write the file although this user may write it."""
        with plainly(self.path):
            if self._copy is None and schema.writable(self.path) and schema.writable(self.folder):
                self.connection.execute("PRAGMA query_only = OFF")
                schema.check_writable(self.connection, self.path)
                self.connection.execute("PRAGMA query_only = ON")

    def check_file(self) -> None:
        """Raise a `DamagedError` if SQLite's ``quick_check`` finds the file damaged, so that rows may be missing."""
        for (message,) in self.ask("PRAGMA quick_check(1)"):
            if message != "ok":
                raise damaged(self.path, f"SQLite: {message}")

    def ask(self, question: str, values: Sequence[Any] = ()) -> Generator[Any, None, None]:
        """The rows that a SQL query returns, one by one; a query that does not end is interrupted."""
        with plainly(self.path):
            schema.limit_steps(self.connection, self.path)
            try:
                yield from self.connection.execute(question, values)
            finally:
                schema.unlimit_steps(self.connection)

    def rows(self, condition: str = "", values: Sequence[Any] = ()) -> Iterator[StoredRecord | Damaged]:
        """The rows of the cells, each checked against its checksum; `condition` is the end of the SQL query."""
        yield from map(rows.read, self.ask(f"{_ROWS} {condition}", values))

    def records(self, experiment: str | None = None, status: str | None = None) -> Iterator[StoredRecord]:
        """The records, in the order in which runs first took the cells; damaged rows are left out.

        Args:
            experiment: only the records of this experiment; None for all.
            status: only the records with this status; None for all.
        """
        condition = "WHERE (?1 IS NULL OR experiment = ?1) AND (?2 IS NULL OR status = ?2) ORDER BY cells.id"
        for row in self.rows(condition, [experiment, status]):
            if (record := _usable(row)) is not None:
                yield record

    def counts(self) -> dict[tuple[str, str], int]:
        """The number of undamaged cells, by (experiment, status)."""
        counted = Counter((record.cell.experiment, record.status) for record in self.records())
        return dict(sorted(counted.items()))

    def left_out(self) -> int:
        """The number of rows that `records` omits because they are damaged."""
        return sum(_usable(row) is None for row in self.rows())

    def record(self, key: str) -> StoredRecord:
        """The only record whose key begins with `key`.

        Raises:
            ArgumentError: if `key` is not made of hex digits.
            StoreError: if no key, or more than one, begins with `key`.
            DamagedError: if the row is damaged.
        """
        if not key or not set(key) <= set("0123456789abcdef"):
            raise ArgumentError("KEY", expected="the first hex digits of a key", got=repr(key))
        rows = list(self.rows("WHERE key >= ? AND key < ? LIMIT 2", [key, f"{key}g"]))
        if len(rows) != 1:
            problem = "more than one cell has" if rows else "no cell has"
            raise StoreError(
                f"In {self.path}, {problem} a key that begins with {key}. `separatrix store ls` lists them."
            )
        if (record := _usable(rows[0])) is None:
            raise DamagedError(f"In {self.path}, the row of {key} does not match its checksum. {arrays.REMEDY}")
        return record

    def result(self, record: StoredRecord) -> dict[str, Any]:
        """The result of a record whose cell is done, with its arrays loaded."""
        if record.result is None:
            raise StoreError(f"The cell {record.key} is {record.status}: it has no result.")
        from separatrix.lab import results  # numpy, which a list of cells does not need

        return results.decode(record.result, lambda digest: arrays.fetch(self.arrays, digest))

    def find(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, StoredRecord | None]]:
        """Each cell with its record: None if the store has none, and a record of status ``damaged`` if its row is."""
        source = iter(cells)
        while batch := list(islice(source, _BATCH)):
            rows = self._by_key([cell.key for cell in batch])
            for cell in batch:
                row = rows.get(cell.key)
                yield cell, None if row is None else _usable(row) or StoredRecord(cell.key, cell, "damaged")

    def statuses(self, keys: Sequence[str]) -> dict[str, str]:
        """The status of each key that the store has: ``damaged`` if the row or an array that it names is damaged."""
        rows = self._by_key(keys).items()
        return {key: self.record_status(record) if (record := _usable(row)) else "damaged" for key, row in rows}

    def record_status(self, record: StoredRecord) -> str:
        """The status of a record: ``damaged`` if an array that it names is missing or damaged."""
        return "damaged" if any(self.wrong_arrays(record)) else record.status

    def wrong_arrays(self, record: StoredRecord) -> Iterator[str]:
        """An error message for each array of a record that is missing or damaged."""
        for mark in arrays.marks_in(record.result or ""):
            from separatrix.lab import results  # numpy, which cells without arrays do not need

            try:
                results.load(mark, lambda digest: arrays.fetch(self.arrays, digest))
            except DamagedError as error:
                yield str(error)

    def _by_key(self, keys: Sequence[str]) -> dict[str, StoredRecord | Damaged]:
        question = f"SELECT sought.value, {_FIELDS} FROM json_each(?) AS sought JOIN cells ON cells.key = sought.value"
        batches = (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))
        answers = (row for batch in batches for row in self.ask(f"{question} {_ORIGINS}", [json.dumps(batch)]))
        return {key: rows.read(row) for key, *row in answers}


def file_in(folder: Path) -> Path:
    """The file of the store in a folder; an error if there is none."""
    if not has_store(folder):
        raise StoreError(
            f"There is no store in {folder}. `separatrix reproduce` or `separatrix sweep` makes one; "
            "--store names another folder."
        )
    return folder / "store.sqlite"


def has_store(folder: Path) -> bool:
    """Whether a folder has the file of a store.

    Raises:
        StoreError: if the folder cannot be read, or if something other than a regular file has the file's name; a
            symlink could lead to a store that is not this folder's.
    """
    path = folder / "store.sqlite"
    with plainly(path):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return False
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path} is not a regular file. Choose another folder with --store.")
    return True


def _make_file(path: Path) -> None:
    """Make the file of an empty store, which only this user can read, unless another process makes one meanwhile.

    The file is written in a temporary folder and linked to its name when it is complete, so that other processes see a
    complete file or none. SQLite gives its log and its index the mode of the file.
    """
    with draft_folder(path) as draft, suppress(FileExistsError):
        file = draft / path.name
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(schema.connect(file, "rw")) as connection:
            schema.make(connection, file)
        link_in_place(file, path)


def _usable(row: StoredRecord | Damaged) -> StoredRecord | None:
    return row.otherwise if isinstance(row, Damaged) else row


_FIELDS = f"cells.id, {rows.COLUMNS.replace('key', 'cells.key')}, seal, facts"
_ORIGINS = "LEFT JOIN origins ON origins.id = cells.origin"
_ROWS = f"SELECT {_FIELDS} FROM cells {_ORIGINS}"
