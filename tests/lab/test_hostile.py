"""Malicious stores with correct checksums, which are made to execute, delete, hang, hide or break something."""

from __future__ import annotations

import os
import sqlite3
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from separatrix.lab import Store, StoreError, rows
from separatrix.lab.alive import lock_path
from separatrix.lab.lease import Lease
from separatrix.lab.upkeep import gc
from tests.lab.app import app
from tests.lab.experiments import number, walk
from tests.lab.helpers import contents, do

PAGE = 4096
CELLS = [walk.cell(seed=seed, steps=20) for seed in range(4)]
COMMANDS = (["ls"], ["verify"], ["export"], ["export", "--format", "json"], ["gc"], ["gc", "--damaged"])


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    do(tmp_path / "results", CELLS)
    return tmp_path / "results"


def store_command(folder: Path, *words: str | Path) -> Result:
    """Run a command as a user does; it never ends with a traceback."""
    done = CliRunner().invoke(app, ["store", *map(str, words), "--store", str(folder)])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


# Files that `store gc` may delete


def test_gc_does_not_follow_a_symlink_among_the_arrays(filled: Path, tmp_path: Path) -> None:
    """The link has the name of an array folder, and the other folder has files of all names that `gc` removes."""
    other = tmp_path / "other"
    other.mkdir()
    names = ["thesis.tex", f"{'0' * 64}.safetensors", f"thesis.{'0' * 32}.draft"]
    for name in names:
        (other / name).write_text("mine")
    free = next(f"{n:02x}" for n in range(256) if not (filled / "arrays" / f"{n:02x}").exists())
    (filled / "arrays" / free).symlink_to(other)
    assert gc(filled).files == 0
    assert sorted(path.name for path in other.iterdir()) == sorted(names)


def test_gc_does_not_follow_a_symlink_to_all_arrays(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (filled / "arrays").rename(other)
    (filled / "arrays").symlink_to(other)
    orphan = other / "00" / f"{'0' * 64}.safetensors"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_text("mine")
    assert gc(filled).files == 0
    assert orphan.read_text() == "mine"


def test_gc_deletes_only_names_that_the_store_makes(filled: Path) -> None:
    """A user may keep other files in the folder of the store, or create a store in a folder with other files."""
    mine = [
        filled / "thesis.draft",
        filled / "book.draft" / "chapter.tex",
        filled / f"{'0' * 32}.draft",
        filled / "arrays" / "ab" / "notes.txt",
        filled / "arrays" / "ab" / "mine.draft",
        filled / "arrays" / "notes" / f"{'0' * 64}.safetensors",
        filled / "arrays" / "zz" / f"{'0' * 64}.safetensors",
        filled / "runs" / "mine.lock",
    ]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    link = filled / f"link.{'0' * 32}.draft"
    link.symlink_to(filled / "book.draft")
    assert store_command(filled, "gc").exit_code == 0
    assert [path for path in mine if not path.exists()] == []
    assert link.is_symlink()


def test_gc_does_not_clear_locks_behind_a_symlink(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lock = other / f"{'0' * 32}.lock"
    lock.touch()
    for path in (filled / "runs").iterdir():
        path.unlink()
    (filled / "runs").rmdir()
    (filled / "runs").symlink_to(other)
    gc(filled)
    assert lock.exists()


def test_a_symlink_in_the_place_of_the_file_is_not_followed(filled: Path, tmp_path: Path) -> None:
    """Following the symlink would let `gc --damaged` remove cells of a store that the user did not name."""
    received = tmp_path / "received"
    received.mkdir()
    (received / "store.sqlite").symlink_to(filled / "store.sqlite")
    for words in COMMANDS:
        done = store_command(received, *words)
        assert done.exit_code == 2
        assert "is not a regular file" in done.stderr
    with pytest.raises(StoreError, match="is not a regular file"):
        Store.create(received)


def test_a_lock_that_is_a_symlink_is_not_opened(filled: Path, tmp_path: Path) -> None:
    """A run writes a counter to its lock file, which would overwrite the beginning of the link's target."""
    mine = tmp_path / "thesis.tex"
    mine.write_text("mine")
    with Store.create(filled) as store:
        lease = Lease(store)
        lock_path(filled, lease.id).symlink_to(mine)
        with pytest.raises(StoreError, match="is a symlink, or not a regular file"), lease:
            pass
    assert mine.read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="makes a named pipe")
def test_pipes_do_not_make_a_command_wait(filled: Path) -> None:
    """Opening or reading a pipe waits for a program at its other end."""
    array = next(filled.glob("arrays/*/*"))
    array.unlink()
    os.mkfifo(array)
    run = "0123456789abcdef" * 2
    os.mkfifo(lock_path(filled, run))
    cell = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store, store.transaction() as connection:
        connection.execute(rows.PUT, rows.StoredRecord(cell.key, cell, "running", run).values)
    assert store_command(filled, "ls").exit_code == 0
    assert "is not a regular file" in store_command(filled, "verify").stdout
    assert store_command(filled, "gc", "--damaged").exit_code == 0
    assert store_command(filled, "verify").exit_code == 0
    (filled / "store.sqlite").unlink()
    os.mkfifo(filled / "store.sqlite")
    assert store_command(filled, "ls").exit_code == 2


def super_journal(path: Path, named: Path) -> bytes:
    """A rollback journal without pages, which SQLite would replay, and then delete the file that it names."""
    pages = path.stat().st_size // PAGE
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 0, 0, pages, 512, PAGE)
    name = os.fsencode(named)
    checksum = sum(name) & 0xFFFFFFFF
    end = struct.pack(">I", 0x40000000 // PAGE + 1) + name + struct.pack(">2I", len(name), checksum)
    return header.ljust(512, b"\0") + end + bytes.fromhex("d9d505f920a163d7")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_journal_cannot_delete_another_file(filled: Path, tmp_path: Path, words: list[str]) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_text("mine")
    (filled / "store.sqlite-journal").write_bytes(super_journal(filled / "store.sqlite", mine))
    done = store_command(filled, *words)
    assert mine.read_text() == "mine"
    if words == ["gc", "--damaged"]:
        assert done.exit_code == 0
        assert len(contents(filled)) == 4
    else:
        assert done.exit_code in (1, 2)
        assert "its rollback journal names another file" in done.output


def test_the_journal_of_this_test_is_an_attack(filled: Path, tmp_path: Path) -> None:
    """SQLite itself, without our check, deletes the file that the journal names."""
    mine = tmp_path / "thesis.tex"
    mine.write_text("mine")
    (filled / "store.sqlite-journal").write_bytes(super_journal(filled / "store.sqlite", mine))
    with sqlite3.connect(filled / "store.sqlite") as connection:
        connection.execute("SELECT count(*) FROM cells").fetchone()
    connection.close()
    assert not mine.exists()
