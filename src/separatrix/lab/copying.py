"""Copies the cells of a store into a new store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from separatrix.errors import ArgumentError
from separatrix.files import draft_folder, put_in_place
from separatrix.lab import arrays, rows
from separatrix.lab.faults import plainly
from separatrix.lab.rows import StoredRecord
from separatrix.lab.store import Store


def copy(store: Store, target: Path) -> tuple[int, int]:
    """Copy the cells that are done or failed into a new store; a run may write to the old store meanwhile.

    Args:
        store: the store.
        target: the folder of the new store, which must be empty or not exist. After an error the folder is unchanged.

    Returns:
        The number of cells that were copied, and the number that were left out because they are damaged.
    """
    with plainly(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ArgumentError("FOLDER", expected="a folder that does not exist, or is empty", got=repr(str(target)))
    copied, left = 0, 0

    def sound_records() -> Iterator[StoredRecord]:
        nonlocal copied, left
        for row in store.rows("ORDER BY cells.id"):
            if not isinstance(row, StoredRecord) or any(store.wrong_arrays(row)):
                left += 1
            elif row.status != "running":
                copied += 1
                for digest in arrays.named_in(row.result or ""):
                    arrays.put(draft / "arrays", digest, arrays.fetch(store.arrays, digest))
                yield row

    with plainly(target), draft_folder(target) as draft:
        write_store(draft, sound_records())
        put_in_place(draft, target)
    return copied, left


def write_store(folder: Path, records: Iterable[StoredRecord]) -> None:
    """Make a store with these records in a new folder."""
    with Store.create(folder) as store, store.transaction() as connection:
        for record in records:
            rows.put(connection, record)
