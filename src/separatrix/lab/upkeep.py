"""Checking a store, and clearing what nothing needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from separatrix.lab import arrays, results
from separatrix.lab.alive import lives, lock_path
from separatrix.lab.faults import StoreError, plainly
from separatrix.lab.store import Record, Store


@dataclass(frozen=True)
class Damage:
    """Something that is not as it was written; `key` is the cell that suffers, where there is one."""

    key: str | None
    what: str


def verify(store: Store) -> Iterator[Damage]:
    """Read everything, and tell what is not as it was written.

    The file by SQLite's own check, each key and each result by its SHA-256, each array by its name.
    """
    for (told,) in store.ask("PRAGMA integrity_check"):
        if told != "ok":
            yield Damage(None, f"{store.path}: {told}")
    for record in store.records():
        yield from (Damage(record.key, what) for what in _wrong(store, record))


def _wrong(store: Store, record: Record) -> Iterator[str]:
    if record.cell.key != record.key:
        yield "the key is not that of the cell"
    if (record.status == "done") != (record.result is not None):
        yield f"the cell is {record.status}, and has {'no' if record.result is None else 'a'} result"
    if record.result is None:
        return
    if sha256(record.result.encode()).hexdigest() != record.digest:
        yield "the result is not the one that was written"
        return
    for digest in results.arrays_in(record.result):
        try:
            arrays.fetch(store.arrays, digest)
        except StoreError as error:
            yield str(error)


@dataclass(frozen=True)
class Cleared:
    """What `gc` took away."""

    files: int
    bytes: int
    cells: int


def gc(store: Store, *, damaged: bool = False) -> Cleared:
    """Remove the arrays that no result names, half-written files, and what killed runs left.

    With `damaged`, also forget the cells that `verify` finds wrong: the next run does them again. No other cell is
    touched. While a run goes on nothing is removed, since it may be about to name an array it has just written.
    """
    with store.transaction() as connection:  # no run can begin meanwhile
        runs = lives(store)
        if any(alive for _, alive in runs):
            raise StoreError(f"A run on {store.folder} is going on. Wait for it to end, or stop it, and try again.")
        forgotten = connection.execute("DELETE FROM cells WHERE status = 'running'").rowcount
        connection.execute("DELETE FROM runs")
        if damaged:
            wrong = [[damage.key] for damage in verify(store) if damage.key is not None]
            forgotten += connection.executemany("DELETE FROM cells WHERE key = ?", wrong).rowcount if wrong else 0
        connection.execute("DELETE FROM origins WHERE id NOT IN (SELECT origin FROM cells WHERE origin IS NOT NULL)")
        needed = {
            digest
            for (text,) in store.ask("SELECT result FROM cells WHERE result IS NOT NULL")
            for digest in results.arrays_in(text)
        }
        names = ((path, path.stem) for path in arrays.files(store.arrays))
        waste = [path for path, name in names if name not in needed or path != arrays.place(store.arrays, name)]
        size = sum(path.stat().st_size for path in waste)
        for path in waste + [lock_path(store.folder, run) for run, _ in runs]:
            path.unlink(missing_ok=True)
    with plainly(store.path):
        store.connection.execute("VACUUM")
    return Cleared(len(waste), size, forgotten)
