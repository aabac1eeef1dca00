"""Makes a new file for a store, from the records that a damaged file still has, or from another store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from separatrix.errors import ArgumentError
from separatrix.files import Held, draft_folder, held, hold_bytes, make_folder, put_in_place
from separatrix.lab import arrays, pages, rows
from separatrix.lab.faults import StoreError, plainly
from separatrix.lab.rows import Record
from separatrix.lab.store import Store

_FIRST_SHARED_BYTE, _SHARED_BYTES = 0x40000002, 510
"""The bytes of a file that SQLite keeps locked while a connection in write-ahead mode is open."""
_FIELDS = rows.COLUMNS.count(",") + 3
_REALS = [rows.COLUMNS.split(", ").index(name) + 1 for name in ("seconds", "finished")]


def rescued(path: Path) -> list[Record]:
    """The undamaged records of finished cells in the pages of a file that SQLite cannot read."""
    found = list(pages.table_rows(path))
    origins = {rows.named(row[1]): row[1] for row in found if len(row) == 2 and isinstance(row[1], str)}
    records: dict[str, Record] = {}
    for row in found:
        if len(row) != _FIELDS:
            continue
        for place in _REALS:  # SQLite stores a float without a fractional part as an integer
            row[place] = float(row[place]) if isinstance(row[place], int) else row[place]
        one = rows.read([*row, origins.get(row[10])])
        record = one if isinstance(one, Record) else one.otherwise
        # A page that is no longer used may have an older row of a cell: a result is preferred to a failure.
        if record and record.status != "running" and (record.status == "done" or record.key not in records):
            records[record.key] = record
    return list(records.values())


def replace(folder: Path, records: Iterable[Record], why: str) -> Path:
    """Replace the file of a store by a new one with these records.

    No connection to it may be open, in this process or another. A reader finds the old file or the new one. The old
    write-ahead log is renamed first, because SQLite would take it for the log of the new file.

    Args:
        folder: the folder of the store.
        records: the records of the new file.
        why: a word for the name under which the old file is kept.

    Returns:
        The path under which the old file is kept.
    """
    path = folder / "store.sqlite"
    aside = next(one for n in range(1, 10**9) if not (one := folder / f"store.{why}-{n}.sqlite").exists())
    with plainly(path), draft_folder(folder / "rebuilt") as draft, _alone_with(path):
        write(draft, records)
        os.link(path, aside)
        for suffix in ("-wal", "-shm"):
            log = path.with_name(path.name + suffix)
            if log.exists():
                log.rename(aside.with_name(aside.name + suffix))
        put_in_place(draft / path.name, path)
    return aside


def copy(store: Store, target: Path) -> tuple[int, int]:
    """Copy the cells that are done or failed into a new store; a run may write to the store meanwhile.

    Args:
        store: the store.
        target: the folder of the new store, which must not exist or be empty. After an error it is as it was.

    Returns:
        How many cells were copied, and how many were left out because they are damaged.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArgumentError("FOLDER", expected="a folder that does not exist, or is empty", got=str(target))
    copied, left = 0, 0

    def whole() -> Iterator[Record]:
        nonlocal copied, left
        for row in store.rows("ORDER BY cells.id"):
            if not isinstance(row, Record) or any(store.wrong_arrays(row)):
                left += 1
            elif row.status != "running":
                copied += 1
                for digest in arrays.named_in(row.result or ""):
                    arrays.put(draft / "arrays", digest, arrays.fetch(store.arrays, digest))
                yield row

    with plainly(target), draft_folder(target) as draft:
        write(draft, whole())
        put_in_place(draft, target)
    return copied, left


def write(folder: Path, records: Iterable[Record]) -> None:
    """Make a store with these records in a new folder."""
    with Store.create(folder) as new, new.transaction() as connection:
        for record in records:
            connection.execute(rows.PUT, record.values)
            if record.origin is not None:
                connection.execute(rows.PUT_ORIGIN, (rows.named(record.origin), record.origin))


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """A block that only one process at a time executes for a store; others wait."""
    lock = folder / "runs" / "rebuild.lock"
    with ExitStack() as stack:
        with plainly(lock):
            make_folder(lock.parent)
            stack.enter_context(held(lock, wait=True))
        yield


@contextmanager
def _alone_with(path: Path) -> Iterator[None]:
    """Raise an error if another process has the file open in SQLite, and keep others from opening it in the block."""
    if sys.platform == "win32":  # here the system refuses to replace an open file
        yield
        return
    with path.open("r+b") as file:
        try:
            hold_bytes(file, _FIRST_SHARED_BYTE, _SHARED_BYTES)
        except Held:
            raise StoreError(f"{path} is open in another program. Close it, and run the same command again.") from None
        yield
