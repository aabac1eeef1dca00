"""The contents of a store and its damage, for `separatrix doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from separatrix.lab.alive import living
from separatrix.lab.faults import DamagedError, plainly
from separatrix.lab.store import Store
from separatrix.lab.upkeep import verify


@dataclass(frozen=True)
class StoreHealth:
    """The cells of a store by status, its size, the current runs, and the damaged parts."""

    cells: dict[str, int]
    bytes: int
    runs: int
    damages: list[str]


def store_health(folder: Path) -> StoreHealth:
    """Read a whole store, and count its contents and its damaged parts."""
    damages = [str(damage) for damage in verify(folder)]
    cells: dict[str, int] = {}
    try:
        with Store.open(folder) as store:
            for (_, status), count in store.counts().items():
                cells[status] = cells.get(status, 0) + count
    except DamagedError:  # damage that makes counting impossible
        cells = {}
    with plainly(folder):
        size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
    return StoreHealth(cells, size, len(living(folder)), damages)
