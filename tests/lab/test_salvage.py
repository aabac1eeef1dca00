"""A store with a damaged file: the rows that SQLite can read are kept, and the damaged file is set aside."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from separatrix.lab import Store, StoreError, salvage
from separatrix.lab.upkeep import gc, verify
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do, fill

PAGE = 4096
CELLS = [*(walk.cell(seed=seed, steps=20) for seed in range(5)), *(fails.cell(seed=seed, when=1) for seed in range(3))]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    do(tmp_path / "results", CELLS)
    return tmp_path / "results"


def pages_of(path: Path, kind: int) -> list[int]:
    """The offsets of the pages of a kind in the file of a store: 13 for leaves of tables, 10 for leaves of indices."""
    data = path.read_bytes()
    return [at for at in range(PAGE, len(data), PAGE) if data[at] == kind]


def overwrite(path: Path, places: list[int]) -> None:
    data = bytearray(path.read_bytes())
    for at in places:
        data[at : at + PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


def test_rows_of_readable_pages_are_kept(tmp_path: Path) -> None:
    """If two leaf pages of the table are destroyed, exactly their rows are lost."""
    cells = [number.cell(seed=seed, x=1.0) for seed in range(400)]
    fill(tmp_path, cells, '{"y":1.0}')
    before, path = contents(tmp_path), tmp_path / "store.sqlite"
    leaves = [at for at in pages_of(path, 13) if b"tests.number" in path.read_bytes()[at : at + PAGE]]
    assert len(leaves) > 10
    data = path.read_bytes()
    lost = {key for at in (leaves[3], leaves[7]) for key in before if key.encode() in data[at : at + PAGE]}
    assert 2 < len(lost) < 100
    overwrite(path, [leaves[3], leaves[7]])
    cleared = gc(tmp_path, damaged=True)
    assert (cleared.salvaged, cleared.aside) == (400 - len(lost), tmp_path / "store.damaged-1.sqlite")
    assert contents(tmp_path) == {key: what for key, what in before.items() if key not in lost}
    assert list(verify(tmp_path)) == []
    with sqlite3.connect(cleared.aside) as connection, pytest.raises(sqlite3.DatabaseError):
        connection.execute("SELECT count(*), max(result) FROM cells NOT INDEXED").fetchone()
    connection.close()


def test_no_row_is_lost_with_an_index(filled: Path) -> None:
    before = contents(filled)
    overwrite(filled / "store.sqlite", pages_of(filled / "store.sqlite", 10))
    cleared = gc(filled, damaged=True)
    assert (cleared.salvaged, cleared.cells) == (8, 0)
    assert contents(filled) == before
    assert list(verify(filled)) == []


def test_a_file_that_sqlite_cannot_open_is_kept_aside_with_its_arrays(filled: Path) -> None:
    before, arrays = contents(filled), sorted(filled.glob("arrays/*/*"))
    data = (filled / "store.sqlite").read_bytes()
    (filled / "store.sqlite").write_bytes(b"X" + data[1:])
    cleared = gc(filled, damaged=True)
    assert (cleared.salvaged, cleared.files) == (0, 0)
    assert cleared.aside.read_bytes() == b"X" + data[1:]
    assert sorted(filled.glob("arrays/*/*")) == arrays
    assert contents(filled) == {}
    do(filled, CELLS)
    assert contents(filled) == before


def test_rows_in_the_log_are_kept(filled: Path) -> None:
    cell = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store:
        store.connection.execute("PRAGMA wal_autocheckpoint = 0")
        fill(filled, [cell], '{"y":1.0}')
        killed = shutil.copytree(filled, filled.with_name("killed"), ignore=shutil.ignore_patterns("*-shm"))
    assert (killed / "store.sqlite-wal").stat().st_size > 0
    aside, salvaged = salvage.salvage(killed)
    assert salvaged == 9
    assert contents(killed)[cell.key][:2] == ("done", '{"y":1.0}')
    assert aside.with_name(f"{aside.name}-wal").exists()


def test_a_file_that_another_process_has_open_is_not_replaced(filled: Path) -> None:
    code = (
        "import sys; from separatrix.lab import Store\n"
        "with Store.open(sys.argv[1]) as store: list(store.records()); print(); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(Path(salvage.__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", code, str(filled)], env=environment, **pipes) as reader:
        assert reader.stdout.readline() == "\n"
        with pytest.raises(StoreError, match="is open in another program"):
            salvage.salvage(filled)
        reader.communicate("\n")
    assert len(contents(filled)) == 8
    assert not list(filled.glob("*.draft"))
    assert not list(filled.glob("store.damaged*"))
