"""Replaces the damaged file of a store by a new one with the rows that can still be read.

The rows are read by ordinary queries over ranges of row numbers, which do not use an index: where SQLite reports a
damaged page, the rest of the range is split, and the two halves are read. Every row is checked by its checksum. The
cells of all other rows count as not run. If SQLite cannot open the file at all, no row is kept.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from separatrix.files import Held, draft_folder, hold_bytes, open_regular, put_in_place
from separatrix.lab import rows, schema
from separatrix.lab.copying import write_store
from separatrix.lab.faults import DamagedError, StoreError, plainly
from separatrix.lab.rows import StoredRecord

_FIRST_SHARED_BYTE, _SHARED_BYTES = 0x40000002, 510
"""The bytes of a file that SQLite keeps locked while a connection in write-ahead mode is open."""
_LARGEST_ROWID = 2**62  # a store numbers its rows from 1
_MOST_FAILURES = 10_000
"""After this many unreadable ranges, no further ranges are read."""
_RANGE = "NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid LIMIT 1 + ?2 - ?1"
"""The limit keeps SQLite from reading a page after the last row of a range."""
_CELLS = f"SELECT id, {rows.COLUMNS}, seal FROM cells {_RANGE}"
_ORIGINS = f"SELECT rowid, facts FROM origins {_RANGE}"


def salvage(folder: Path) -> tuple[Path, int]:
    """Replace the damaged file of a store by a new one with its readable rows, and keep the damaged file aside.

    Another process finds either the old file or the new one. The write-ahead log of the old file is renamed first,
    because SQLite would take it for the log of the new file.

    Returns:
        The path under which the damaged file is kept, and the number of cells in the new file.

    Raises:
        StoreError: if another process has the file open.
    """
    path = folder / "store.sqlite"
    with plainly(path), draft_folder(folder / "salvaged") as draft, open(open_regular(path, os.O_RDWR), "r+b") as file:
        _lock_out_others(file, path)
        # Opening the file again and closing it would release the lock, so a copy is read.
        with (draft / "damaged.sqlite").open("wb") as copy:
            shutil.copyfileobj(file, copy)
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            with open(open_regular(log), "rb") as source, (draft / "damaged.sqlite-wal").open("wb") as copy:
                shutil.copyfileobj(source, copy)
        records = readable_records(draft / "damaged.sqlite")
        write_store(draft / "new", records)
        aside = _free_name(folder)
        os.link(path, aside, follow_symlinks=False)
        for suffix in ("-wal", "-shm", "-journal"):
            beside = path.with_name(f"{path.name}{suffix}")
            if os.path.lexists(beside):
                beside.rename(aside.with_name(f"{aside.name}{suffix}"))
        put_in_place(draft / "new" / path.name, path)
    return aside, len(records)


def _free_name(folder: Path) -> Path:
    """An unused path in the folder of a store, to which a damaged file of the store is moved."""
    names = (folder / f"store.damaged-{number}.sqlite" for number in range(1, 10**9))
    return next(name for name in names if not os.path.lexists(name))


def readable_records(path: Path) -> list[StoredRecord]:
    """The undamaged records of finished cells that SQLite can read from a file; SQLite may change the file."""
    records: dict[str, StoredRecord] = {}
    try:
        with plainly(path), closing(schema.connect(path, "rw")) as connection:
            if not schema.has_current_tables(connection):
                return []
            facts = (facts for _, facts in _by_ranges(connection, path, _ORIGINS) if isinstance(facts, str))
            origins = {rows.named(text): text for text in facts}
            for row in _by_ranges(connection, path, _CELLS):
                checked = rows.read([*row, origins.get(row[10])])
                record = checked if isinstance(checked, StoredRecord) else checked.otherwise
                if record is not None and record.status != "running":
                    records[record.key] = record
    except DamagedError:  # SQLite cannot open the file, or cannot close its log; the rows read so far are kept
        pass
    return list(records.values())


def _by_ranges(connection: sqlite3.Connection, path: Path, query: str) -> Iterator[Any]:
    """The rows of a query over a range of row numbers, without those that cannot be read."""
    ranges, failures = deque([(0, _LARGEST_ROWID)]), 0
    schema.limit_steps(connection, path)
    while ranges and failures < _MOST_FAILURES:
        low, high = ranges.popleft()
        try:
            for row in connection.execute(query, (low, high)):
                yield row
                low = row[0] + 1
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # SQLite's message may quote damaged bytes
            failures += 1
            middle = (low + high) // 2
            if low < high:
                ranges += [(low, middle), (middle + 1, high)]


def _lock_out_others(file: BinaryIO, path: Path) -> None:
    """Lock the file against other SQLite processes until it is closed; raise an error if another process has it
    open."""
    try:
        hold_bytes(file, _FIRST_SHARED_BYTE, _SHARED_BYTES)
    except Held:
        raise StoreError(f"{path} is open in another program. Close it, and run the same command again.") from None
