"""Stores of schema 1, which are upgraded when they are opened."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from separatrix.lab import Cell, Store, StoreError, schema
from separatrix.lab.upkeep import verify
from tests.lab.experiments import number
from tests.lab.helpers import command, environment, read_only_copy

OLD = """
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
        records = list(store.records())
        assert schema.pragma(store.connection, "user_version") == str(schema.SCHEMA)
    origin = '{"separatrix":"0.0"}'
    fields = [(record.cell.seed, record.status, record.result, record.traceback) for record in records]
    assert fields == [(0, "done", '{"y":1.0}', None), (2, "failed", None, "Traceback")]
    assert {record.origin for record in records} == {origin}
    assert (old / "store.schema-1-1.sqlite").exists()
    assert list(verify(old)) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_an_older_store_that_cannot_be_written_says_what_to_do(old: Path) -> None:
    with read_only_copy(old) as folder, pytest.raises(StoreError, match="Copy the folder to a place where you can"):
        Store.open(folder)


def test_clearing_an_older_store_does_not_hang(old: Path) -> None:
    """In a process of its own, which a test can end if it waits for itself."""
    words = command("store", "gc", "--damaged", "--store", old)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    assert list(verify(old)) == []
    with Store.open(old) as store:
        assert [record.cell.seed for record in store.records()] == [0, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW other AS SELECT 1",
        "CREATE TRIGGER fired AFTER DELETE ON cells BEGIN SELECT 1; END",
        "ALTER TABLE cells ADD COLUMN colour TEXT",
    ],
)
def test_an_older_store_has_exactly_the_tables_of_its_schema(old: Path, statement: str) -> None:
    with sqlite3.connect(old / "store.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    before = (old / "store.sqlite").read_bytes()
    with pytest.raises(StoreError, match="its tables are not those that were made"):
        Store.open(old)
    assert (old / "store.sqlite").read_bytes() == before
