"""Copies of a store."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from separatrix.errors import ArgumentError
from separatrix.lab import Store, StoreError
from separatrix.lab.copying import copy
from separatrix.lab.lease import Lease
from separatrix.lab.upkeep import verify
from tests.lab.app import app
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do

CELLS = [*(walk.cell(seed=seed, steps=20) for seed in range(5)), *(fails.cell(seed=seed, when=1) for seed in range(3))]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    do(tmp_path / "results", CELLS)
    return tmp_path / "results"


def test_a_copy_is_whole_while_a_run_goes_on(filled: Path, tmp_path: Path) -> None:
    """The store's cells are in SQLite's write-ahead log, which a plain copy of the file does not contain."""
    running, done = (number.cell(seed=seed, x=1.0) for seed in (0, 1))
    with Store.create(filled) as store, Lease(store) as lease:
        lease.take([(running.key, running)], failed_too=False)
        do(filled, [done])
        assert (filled / "store.sqlite-wal").stat().st_size > 0
        plain = shutil.copytree(filled, tmp_path / "plain", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
        with Store.open(filled) as kept:
            assert copy(kept, tmp_path / "new" / "copy") == (9, 0)
    assert done.key not in contents(plain)
    copied = contents(tmp_path / "new" / "copy")
    assert copied == {key: what for key, what in contents(filled).items() if what[0] != "running"}
    assert done.key in copied
    assert list(verify(tmp_path / "new" / "copy")) == []
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy"]


def test_a_copy_omits_damaged_rows_and_says_so(filled: Path, tmp_path: Path) -> None:
    sorted(filled.glob("arrays/*/*.safetensors"))[0].write_bytes(b"junk")
    with sqlite3.connect(filled / "store.sqlite") as connection:
        connection.execute(f"UPDATE cells SET result = '{{}}' WHERE key = '{CELLS[-1].key}'")
    connection.close()
    done = CliRunner().invoke(app, ["store", "copy", str(tmp_path / "copy"), "--store", str(filled)])
    assert done.exit_code == 1
    assert "Copied 6 cells" in done.stdout
    assert "2 cells skipped because of damage" in done.stderr
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "results"]
