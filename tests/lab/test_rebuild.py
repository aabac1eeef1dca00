"""Copies of a store, and stores of the schema before this one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from separatrix.errors import ArgumentError
from separatrix.lab import Cell, Store, StoreError, rebuild, schema
from separatrix.lab.lease import Lease
from separatrix.lab.pages import table_rows
from separatrix.lab.rebuild import copy, rescued
from separatrix.lab.upkeep import gc, verify
from tests.lab.app import app
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do, fill, read_only_copy

CELLS = [*(walk.cell(seed=seed, steps=20) for seed in range(5)), *(fails.cell(seed=seed, when=1) for seed in range(3))]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    do(tmp_path / "results", CELLS)
    return tmp_path / "results"


def test_a_copy_is_whole_while_a_run_goes_on(filled: Path, tmp_path: Path) -> None:
    """Its cells are in SQLite's log, which a plain copy of the file misses."""
    running, done = (number.cell(seed=seed, x=1.0) for seed in (0, 1))
    with Store.create(filled) as store, Lease(store) as lease:
        lease.take([(running.key, running)], failed_too=False)
        do(filled, [done])
        assert (filled / "store.sqlite-wal").stat().st_size > 0
        plain = shutil.copytree(filled, tmp_path / "plain", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
        with Store.open(filled) as kept:
            assert copy(kept, tmp_path / "new" / "copy") == (9, 0)
    assert done.key not in contents(plain)
    found = contents(tmp_path / "new" / "copy")
    assert found == {key: what for key, what in contents(filled).items() if what[0] != "running"}
    assert done.key in found
    assert list(verify(tmp_path / "new" / "copy")) == []
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["copy"]


def test_a_copy_leaves_out_what_is_damaged_and_says_so(filled: Path, tmp_path: Path) -> None:
    sorted(filled.glob("arrays/*/*.safetensors"))[0].write_bytes(b"junk")
    with sqlite3.connect(filled / "store.sqlite") as connection:
        connection.execute(f"UPDATE cells SET result = '{{}}' WHERE key = '{CELLS[-1].key}'")
    connection.close()
    done = CliRunner().invoke(app, ["store", "copy", str(tmp_path / "copy"), "--store", str(filled)])
    assert done.exit_code == 1
    assert "Copied 6 cells" in done.stdout
    assert "2 cells left out, being damaged" in done.stderr
    assert list(verify(tmp_path / "copy")) == []


def test_a_copy_goes_to_a_new_folder_or_nowhere(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    with Store.open(filled) as store:
        with pytest.raises(ArgumentError, match="FOLDER: expected a folder that does not exist, or is empty"):
            copy(store, filled)
        assert copy(store, tmp_path / "empty") == (8, 0)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="the disk is full"):
            copy(store, tmp_path / "full")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "results"]


def test_pages_are_read_as_sqlite_reads_them(tmp_path: Path) -> None:
    """Records of every length about the sizes where SQLite cuts them, and values of every kind."""
    path = tmp_path / "file.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a, b, c)")
    values = [
        0,
        1,
        -1,
        127,
        128,
        -32769,
        2**23,
        -(2**31) - 1,
        2**47,
        2**63 - 1,
        -(2**63),
        0.5,
        -1e300,
        None,
        "",
        b"\xff",
    ]
    sizes = [*range(3950, 4110), 8000, 8190, 100_000]
    with connection:
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, value, "é") for i, value in enumerate(values)])
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, "x" * n, None) for n in sizes])
    rows = sorted(map(list, connection.execute("SELECT a, b, c FROM t")), key=repr)
    connection.close()
    assert sorted((row for row in table_rows(path) if len(row) == 3), key=repr) == rows


@pytest.mark.parametrize("column", ["sql", "name"])
def test_all_rows_are_kept_where_only_the_tables_are_damaged(filled: Path, column: str) -> None:
    before = contents(filled)
    with sqlite3.connect(filled / "store.sqlite") as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_schema SET {column} = replace({column}, 'cells', 'kells')")
    connection.close()
    with pytest.raises(StoreError, match="is damaged, or is not a store"):
        Store.open(filled)
    cleared = gc(filled, damaged=True)
    assert (cleared.rescued, cleared.cells) == (8, 0)
    assert cleared.aside == filled / "store.damaged-1.sqlite"
    assert cleared.aside.exists()
    assert contents(filled) == before
    assert list(verify(filled)) == []


def test_what_is_done_counts_more_than_what_was_before(filled: Path) -> None:
    """A page that SQLite no longer uses may still have the row of a cell while it was running, or had failed."""
    cell = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store:
        store.connection.execute("PRAGMA wal_autocheckpoint = 0")
        with Lease(store) as lease:
            lease.take([(cell.key, cell)], failed_too=False)
        fill(filled, [cell], '{"y":1.0}')
        killed = shutil.copytree(filled, filled.with_name("killed"), ignore=shutil.ignore_patterns("*-shm"))
    found = {record.key: record.status for record in rescued(killed / "store.sqlite")}
    assert found[cell.key] == "done"
    assert "running" not in found.values()


def test_a_file_that_another_process_has_open_is_not_replaced(filled: Path) -> None:
    code = (
        "import sys; from separatrix.lab import Store\n"
        "with Store.open(sys.argv[1]) as store: list(store.records()); print(); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(Path(rebuild.__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", code, str(filled)], env=environment, **pipes) as reader:
        assert reader.stdout.readline() == "\n"
        with pytest.raises(StoreError, match="is open in another program"):
            rebuild.replace(filled, [], "damaged")
        reader.communicate("\n")
    assert len(contents(filled)) == 8
    assert not list(filled.glob("*.draft"))
    assert not list(filled.glob("store.damaged*"))


OLD = """
CREATE TABLE runs (id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, heartbeat REAL NOT NULL);
CREATE TABLE origins (id INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, experiment TEXT NOT NULL, version INTEGER NOT NULL,
    parameters TEXT NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL, run TEXT REFERENCES runs, seconds REAL,
    finished REAL, origin INTEGER REFERENCES origins, digest TEXT, result TEXT, traceback TEXT
);
INSERT INTO origins VALUES (1, '{"separatrix":"0.0"}');
PRAGMA application_id = 0x53455058;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""
_INSERT = (
    "INSERT INTO cells (key, experiment, version, parameters, seed, status, seconds, finished, origin, digest, result,"
    " traceback) VALUES (?, ?, ?, ?, ?, ?, 0.5, 1e9, 1, ?, ?, ?)"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of schema 1: two results, one of them changed since, a failure, and a cell of a killed run."""
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    connection.executescript(OLD)

    def insert(cell: Cell, status: str, result: str | None, digest: str | None, traceback: str | None = None) -> None:
        row = (cell.key, cell.experiment, cell.version, cell.parameters, cell.seed, status, digest, result, traceback)
        connection.execute(_INSERT, row)

    cells = [number.cell(seed=seed, x=1.0) for seed in range(4)]
    insert(cells[0], "done", '{"y":1.0}', sha256(b'{"y":1.0}').hexdigest())
    insert(cells[1], "done", '{"y":2.0}', sha256(b'{"y":1.0}').hexdigest())
    insert(cells[2], "failed", None, None, "Traceback")
    insert(cells[3], "running", None, None)
    connection.commit()
    connection.close()
    return tmp_path


@pytest.mark.parametrize("use", [Store.create, Store.open])
def test_an_older_store_is_brought_up_to_date(old: Path, use) -> None:
    with use(old) as store:
        found = [(one.cell.seed, one.status, one.result, one.traceback, one.origin) for one in store.records()]
        assert schema.pragma(store.connection, "user_version") == str(schema.SCHEMA)
    origin = '{"separatrix":"0.0"}'
    assert found == [(0, "done", '{"y":1.0}', None, origin), (2, "failed", None, "Traceback", origin)]
    assert (old / "store.schema-1-1.sqlite").exists()
    assert list(verify(old)) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_an_older_store_that_cannot_be_written_says_what_to_do(old: Path) -> None:
    with read_only_copy(old) as folder, pytest.raises(StoreError, match="Copy the folder to a place where you can"):
        Store.open(folder)
