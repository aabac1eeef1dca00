"""Checks a store, and removes what is not needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from separatrix.files import drafts_in
from separatrix.lab import alive, arrays, rows
from separatrix.lab.faults import DamagedError, StoreError, plainly
from separatrix.lab.rows import Damaged, StoredRecord
from separatrix.lab.salvage import salvage
from separatrix.lab.store import Store, file_in
from separatrix.lab.wording import printable


@dataclass(frozen=True)
class Damage:
    """A part of a store that does not match its checksum.

    Attributes:
        what: what is wrong.
        row: the row that is damaged, if the damage concerns one row; else None.
    """

    what: str
    row: StoredRecord | Damaged | None = None

    def __str__(self) -> str:
        key = self.row and self.row.key
        return printable(f"{key[:12]}: {self.what}" if isinstance(key, str) else self.what)


def verify(folder: Path) -> Iterator[Damage]:
    """Read a whole store and report its damaged parts.

    The file is checked by SQLite's ``integrity_check``, each row by its checksum, and each array by its name.

    Yields:
        A `Damage` for each damaged part. No kind of damage raises an exception.
    """
    try:
        with Store.open(folder) as store:
            store.check_writable()
            for (message,) in store.ask("PRAGMA integrity_check"):
                if message != "ok":
                    yield Damage(f"{store.path}: {message}")
            for row in store.rows("ORDER BY cells.id"):
                if isinstance(row, Damaged):
                    yield Damage(row.what, row)
                else:
                    yield from (Damage(what, row) for what in store.wrong_arrays(row))
    except DamagedError as error:
        yield Damage(str(error))


@dataclass(frozen=True)
class Cleared:
    """The files and rows that `gc` removed.

    Attributes:
        files: the number of files.
        bytes: the total size of these files.
        cells: the number of cells.
        aside: the path under which a damaged file of the store is kept; None if it was not replaced.
        salvaged: the number of undamaged cells of that file.
    """

    files: int
    bytes: int
    cells: int
    aside: Path | None = None
    salvaged: int = 0


def gc(folder: Path, *, damaged: bool = False) -> Cleared:
    """Remove the arrays that no result names, incomplete files, and the cells and locks that killed runs left.

    Args:
        folder: the folder of the store.
        damaged: whether to remove the cells that `verify` finds damaged as well; the next run recomputes them. If the
            file itself is damaged, it is kept under another name, and a new file is made from the readable rows. Then
            arrays that no result names are kept too, because rows of the damaged file may name them.

    Raises:
        StoreError: if a run is in progress. Nothing is removed in this case.
        DamagedError: if rows are damaged and `damaged` is False, since it is not known which arrays they need.
    """
    file_in(folder)
    if alive.living(folder):
        raise StoreError(f"A run on {folder} is in progress. Wait for it to end, or stop it, and try again.")
    aside, salvaged = None, 0
    if damaged and any(damage.row is None for damage in verify(folder)):
        aside, salvaged = salvage(folder)
    with Store.create(folder) as store:
        forgotten = _forget(store, damaged=damaged)
        with store.transaction():  # a run that begins meanwhile cannot write a row
            needed = {digest for record in store.records() for digest in arrays.named_in(record.result or "")}
            files = [(path, path.stem) for path in arrays.files(store.arrays)] if aside is None else []
            waste = [path for path, name in files if name not in needed or path != arrays.place(store.arrays, name)]
            waste += [path for path in drafts_in(folder) if path.is_file()]
            size = sum(path.stat().st_size for path in waste)
            for path in [*waste, *(lock for lock in alive.locks(folder) if not alive.lives(folder, lock.stem))]:
                path.unlink(missing_ok=True)
        with plainly(store.path):
            for path in drafts_in(folder):
                shutil.rmtree(path)
            store.connection.execute("VACUUM")
    return Cleared(len(waste), size, forgotten, aside, salvaged)


def _forget(store: Store, *, damaged: bool) -> int:
    """Remove the cells of killed runs and, with `damaged`, the damaged cells; return how many."""
    with store.transaction() as connection:
        runs = {run for (run,) in connection.execute("SELECT DISTINCT run FROM cells WHERE run IS NOT NULL")}
        forgotten = 0
        for run in runs:
            if not alive.lives(store.folder, run):
                left = connection.execute("DELETE FROM cells WHERE run = ? AND status = 'running'", [run])
                forgotten += left.rowcount
        wrong = [row for row in store.rows() if isinstance(row, Damaged) or any(store.wrong_arrays(row))]
        if wrong and not damaged:
            raise DamagedError(_UNKNOWN.format(count=len(wrong), folder=store.folder))
        for row in wrong:
            if isinstance(row, Damaged) and row.otherwise is not None:
                connection.execute(rows.PUT, row.otherwise.values)
            else:
                which = ("id", row.id) if isinstance(row, Damaged) else ("key", row.key)
                connection.execute(f"DELETE FROM cells WHERE {which[0]} = ?", [which[1]])
                forgotten += 1
        connection.execute("DELETE FROM origins WHERE id NOT IN (SELECT origin FROM cells WHERE origin IS NOT NULL)")
    return forgotten


_UNKNOWN = (
    "{count:,} of the rows in {folder} are damaged, so that it is not known which arrays they need. `separatrix store "
    "verify --store {folder}` lists them, `separatrix store gc --damaged --store {folder}` removes them."
)
