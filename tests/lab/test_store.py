from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from separatrix.errors import ArgumentError
from separatrix.lab import Store, StoreError, schema
from separatrix.lab.lease import Lease
from separatrix.lab.schema import SCHEMA
from separatrix.lab.upkeep import verify
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do, environment, read_only_copy


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store with 30 walks, all done."""
    do(tmp_path / "results", [walk.cell(seed=seed, steps=5) for seed in range(30)])
    return tmp_path / "results"


def test_a_result_is_restored_unchanged(filled: Path) -> None:
    cells = [walk.cell(seed=seed, steps=5) for seed in range(30)]
    with Store.open(filled) as store:
        for cell, record in store.find(cells):
            assert record is not None
            assert record.cell == cell
            found, made = store.result(record), walk(5, seed=cell.seed)
            assert found.pop("path").tobytes() == made["path"].tobytes()
            assert found == {name: made[name] for name in ("end", "largest")}


def test_find_names_missing_cells(filled: Path) -> None:
    with Store.open(filled) as store:
        (one, other) = store.find([walk.cell(seed=29, steps=5), walk.cell(seed=30, steps=5)])
    assert one[1] is not None
    assert other[1] is None


def test_a_record_by_the_beginning_of_its_key(filled: Path) -> None:
    key = walk.cell(seed=7, steps=5).key
    with Store.open(filled) as store:
        assert store.record(key[:12]).key == store.record(key).key == key
        with pytest.raises(StoreError, match="no cell has a key that begins with"):
            store.record(("0" if key[0] != "0" else "1") * 20)
        crowded = next(first for first in "0123456789abcdef" if sum(k.startswith(first) for k in contents(filled)) > 1)
        with pytest.raises(StoreError, match="more than one cell"):
            store.record(crowded)
        for bad in ("", "xyz", "%"):
            with pytest.raises(ArgumentError, match="hex digits"):
                store.record(bad)


def test_provenance_is_reported_and_is_not_a_result(filled: Path) -> None:
    with Store.open(filled) as store:
        record = next(store.records())
    assert record.seconds is not None
    assert record.finished is not None
    assert record.origin is not None
    assert all(word in record.origin for word in ("separatrix", "git", "torch", "cpu", "host"))
    assert record.result is not None
    assert "seconds" not in record.result


def test_a_failure_has_its_traceback_and_no_result(tmp_path: Path) -> None:
    do(tmp_path, [fails.cell(seed=seed, when=1) for seed in range(3)])
    with Store.open(tmp_path) as store:
        (record,) = store.records(status="failed")
        assert record.traceback is not None
        assert "ZeroDivisionError: seed 1 was told to fail" in record.traceback
        assert record.result is None
        with pytest.raises(StoreError, match="is failed: it has no result"):
            store.result(record)


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store in"):
        Store.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("method", [Store.create, Store.open])
@pytest.mark.parametrize(("schema", "age"), [(SCHEMA + 1, "a newer"), (SCHEMA - 1, "an older")])
def test_a_store_of_another_schema_is_refused_and_left_alone(filled: Path, method, schema: int, age: str) -> None:
    connection = sqlite3.connect(filled / "store.sqlite")
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.execute("ALTER TABLE cells ADD COLUMN colour TEXT")
    connection.close()
    before = (filled / "store.sqlite").read_bytes()
    with pytest.raises(StoreError, match=rf"{age} separatrix \(schema {schema}; this one knows {SCHEMA}\). Use that"):
        method(filled)
    assert (filled / "store.sqlite").read_bytes() == before


@pytest.mark.parametrize("method", [Store.create, Store.open])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, method) -> None:
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.commit()
    connection.close()
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        method(tmp_path)
    assert (tmp_path / "store.sqlite").read_bytes() == before


@pytest.mark.parametrize("method", [Store.create, Store.open])
@pytest.mark.parametrize("junk", [b"not a database " * 100, b"SQLite format 3\0" + b"\7" * 5000])
def test_a_file_that_is_not_a_database_is_not_changed(tmp_path: Path, method, junk: bytes) -> None:
    (tmp_path / "store.sqlite").write_bytes(junk)
    with pytest.raises(StoreError, match="is damaged, or is not a store"):
        method(tmp_path)
    assert (tmp_path / "store.sqlite").read_bytes() == junk


def test_a_damaged_page_is_reported_and_nothing_is_changed(filled: Path) -> None:
    data = bytearray((filled / "store.sqlite").read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    (filled / "store.sqlite").write_bytes(data)
    with pytest.raises(StoreError, match="is damaged"), Store.open(filled) as store:
        list(store.records())
    with pytest.raises(StoreError, match="is damaged"):
        do(filled, [walk.cell(seed=0, steps=5)])
    assert (filled / "store.sqlite").read_bytes() == bytes(data)


def test_an_interrupted_creation_is_completed(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").touch()
    with pytest.raises(StoreError, match="it has no tables: it was cut short"):
        Store.open(tmp_path)
    with Store.create(tmp_path) as store:
        assert store.counts() == {}


def test_many_processes_may_create_one_store_at_once(tmp_path: Path) -> None:
    code = f"from separatrix.lab import Store; input(); Store.create({str(tmp_path / 'new')!r}).close()"
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    makers = [subprocess.Popen([sys.executable, "-c", code], env=environment(), **pipes) for _ in range(6)]
    for maker in makers:
        maker.stdin.write("go\n")
        maker.stdin.flush()
    assert [maker.communicate(timeout=900)[1] for maker in makers] == [""] * 6
    with Store.open(tmp_path / "new") as store:
        assert store.counts() == {}


def test_a_reader_sees_a_complete_store_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test opens the store before and after every statement that creates it."""
    connect, seen = schema.connect, []

    def look(_: object = None) -> None:
        with monkeypatch.context() as reader:
            reader.setattr(schema, "connect", connect)
            try:
                Store.open(tmp_path).close()
                seen.append("whole")
            except StoreError as error:
                seen.append("none" if str(error).startswith("There is no store in") else str(error))

    def watched(path: Path, mode: str) -> sqlite3.Connection:
        connection = connect(path, mode)
        connection.set_trace_callback(look)
        return connection

    monkeypatch.setattr(schema, "connect", watched)
    look()
    Store.create(tmp_path).close()
    look()
    assert seen == ["none"] * seen.count("none") + ["whole"] * seen.count("whole")
    assert seen.count("none") > 5
    assert seen[-1] == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["store.sqlite"]


@pytest.mark.parametrize("hold", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_store_that_another_process_is_making_is_waited_for(tmp_path: Path, hold: str) -> None:
    """SQLite itself does not wait if the other process has begun with BEGIN IMMEDIATE."""
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None, check_same_thread=False)
    other.execute(hold)
    other.execute("SELECT * FROM sqlite_schema").fetchall()
    ends = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    ends.start()
    with Store.create(tmp_path) as store:
        assert store.counts() == {}
    ends.join()
    other.close()


def test_a_store_created_during_the_check_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the file is a store and which tables it has must be read in one transaction."""
    look, others = schema.pragma, []

    def slow_look(connection: sqlite3.Connection, name: str) -> str:
        value = look(connection, name)
        if name == "application_id" and not others:
            others.append(threading.Thread(target=lambda: Store.create(tmp_path).close()))
            others[0].start()
            others[0].join(0.3)
        return value

    monkeypatch.setattr(schema, "pragma", slow_look)
    with Store.create(tmp_path) as store:
        assert store.counts() == {}
    others[0].join()


def test_a_store_that_another_program_keeps_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.lab.schema.WAIT_SECONDS", 0.05)
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another program"):
        Store.create(tmp_path)
    other.close()


def test_a_closed_store_is_one_file(filled: Path) -> None:
    contents(filled)
    assert sorted(path.name for path in filled.iterdir()) == ["arrays", "runs", "store.sqlite"]
    assert not list((filled / "runs").iterdir())


def test_a_reader_cannot_write(filled: Path) -> None:
    with Store.open(filled) as store, pytest.raises(StoreError, match="cannot be opened"), store.transaction():
        store.connection.execute("DELETE FROM cells")
    assert len(contents(filled)) == 30


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_store_that_cannot_be_written_can_be_read(filled: Path) -> None:
    before = contents(filled)
    with read_only_copy(filled) as folder:
        with pytest.raises(StoreError, match=r"cannot be opened .* choose another one with --store"):
            do(folder, [number.cell(seed=1, x=1)])
        assert contents(folder) == before
        assert list(verify(folder)) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_store_of_a_killed_run_can_be_read_from_a_read_only_medium(filled: Path) -> None:
    """Most rows are in SQLite's write-ahead log, which SQLite reads only if it can write the log's index."""
    last = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store:
        do(filled, [last])
        assert (filled / "store.sqlite-wal").stat().st_size > 0
        before = contents(filled)
        with read_only_copy(filled) as folder:
            assert contents(folder) == before
            assert list(verify(folder)) == []
            with Store.open(folder) as kept, pytest.raises(StoreError, match="cannot be opened"):
                kept.transaction().__enter__()
        assert last.key in before
        assert store.counts() == {("tests.number", "done"): 1, ("tests.walk", "done"): 30}


def test_created_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.create(tmp_path / "new" / "results") as store, Lease(store):
            do(tmp_path / "new" / "results", [walk.cell(seed=0, steps=5)])
            made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
            modes = {path.name: path.stat().st_mode & 0o777 for path in made}
    finally:
        os.umask(before)
    assert {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "arrays", "runs"} <= set(modes)
    assert any(name.endswith(".lock") for name in modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    for folder in (tmp_path / "results", tmp_path / "results" / "deeper"):
        with pytest.raises(StoreError, match="Make the folder readable and writable"):
            Store.create(folder)


def test_no_connection_loses_its_locks_to_another_of_the_process(filled: Path) -> None:
    """The system drops all locks of a process on a file when the process closes any of its descriptors.

    Without the locks another process may remove SQLite's log during a run.
    """
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b')\ntry: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, "
        "510, 0x40000002); print('free')\nexcept BlockingIOError: print('held')"
    )

    def seen_from_outside() -> str:
        look = [sys.executable, "-c", code, str(filled / "store.sqlite")]
        return subprocess.run(look, capture_output=True, text=True, check=True).stdout

    with Store.create(filled) as store:
        assert len(list(store.records())) == 30
        for use in (Store.create, Store.open):
            use(filled).close()
        assert list(verify(filled)) == []
        do(filled, [number.cell(seed=0, x=1.0)])
        assert seen_from_outside() == "held\n"
    assert seen_from_outside() == "free\n"
