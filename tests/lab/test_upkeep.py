from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from separatrix.lab import Store, StoreError, alive, arrays, export, in_process, results, rows, run
from separatrix.lab.alive import lock_path
from separatrix.lab.faults import DamagedError
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Tally
from separatrix.lab.upkeep import gc, verify
from separatrix.lab.worker import CellOutcome
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do

WALKS = [walk.cell(seed=seed, steps=20) for seed in range(6)]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    do(folder, [*WALKS, *(fails.cell(seed=seed, when=1) for seed in range(3))])
    return folder


def meddle(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()


def damages(folder: Path) -> list[tuple[str | None, str]]:
    return [(damage.row and damage.row.key, damage.what) for damage in verify(folder)]


def test_a_sound_store(filled: Path) -> None:
    assert damages(filled) == []


CHANGES = {
    "version": "version + 1",
    "seed": "seed + 1",
    "seconds": "seconds + 0.001",
    "finished": "finished - 3600",
    "run": "'0123456789abcdef0123456789abcdef'",
    "status": "'failed'",
    "traceback": "'Traceback'",
    "origin": "NULL",
}


@pytest.mark.parametrize("column", [*rows.COLUMNS.split(", ")[1:], "seal"])
def test_a_field_that_is_changed_makes_its_cell_count_as_not_run(filled: Path, column: str) -> None:
    before, cell = contents(filled), WALKS[2]
    changed = CHANGES.get(column, f"{column} || ' '")
    meddle(filled, f"UPDATE cells SET {column} = {changed} WHERE key = '{cell.key}'")
    assert damages(filled) == [(cell.key, "the row does not match its checksum")]
    with Store.open(filled) as store:
        assert store.statuses([cell.key]) == {cell.key: "damaged"}
        ((_, record),) = store.find([cell])
        assert (record.status, record.result) == ("damaged", None)
        assert cell.key not in {record.key for record in store.records()}
        assert store.left_out() == 1
        with pytest.raises(DamagedError, match="does not match its checksum"):
            store.record(cell.key)
    notes = Notes()
    with Store.create(filled) as store:
        tally = run(store, WALKS, in_process(), progress=notes)
    assert (tally.done, tally.skipped) == (1, 5)
    assert notes.told == [
        f"Damaged cells in the store, which count as not run and are run again: 1. The first of them is {cell}."
    ]
    assert contents(filled) == before
    assert damages(filled) == []


class Notes:
    """The messages of a run besides its numbers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def show(self, tally: Tally) -> None:
        pass

    def note(self, text: str) -> None:
        self.told.append(text)


def test_a_lost_origin_is_reported_and_loses_no_result(filled: Path) -> None:
    before = contents(filled)
    meddle(filled, "UPDATE origins SET facts = replace(facts, 'numpy', 'numpi')")
    assert {what for _, what in damages(filled)} == {
        "the record of the origin of the result is damaged; the result itself matches its checksum"
    }
    assert contents(filled) == before
    with Store.open(filled) as store:
        assert [record.origin for record in store.records()] == [None] * 9
    assert gc(filled, damaged=True).cells == 0
    assert damages(filled) == []
    assert contents(filled) == before
    do(filled, [number.cell(seed=0, x=1.0)])
    with Store.open(filled) as store:
        assert [record.origin is None for record in store.records()] == [True] * 9 + [False]


def test_a_new_result_brings_back_the_facts_of_its_origin(filled: Path) -> None:
    meddle(filled, "UPDATE origins SET facts = '{}'")
    do(filled, [number.cell(seed=0, x=1.0)])
    assert damages(filled) == []


@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
def test_a_damaged_array_is_found_and_its_cell_done_again(filled: Path, how: str) -> None:
    before = contents(filled)
    file = sorted(filled.glob("arrays/*/*.safetensors"))[0]
    data = file.read_bytes()
    match how:
        case "cut":
            file.write_bytes(data[:-3])
        case "flip":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "gone":
            file.unlink()
    ((key, what),) = damages(filled)
    assert file.name in what
    with Store.open(filled) as store:
        assert store.statuses([key]) == {key: "damaged"}
    copy = shutil.copytree(filled, filled.with_name("run again"))
    tally = do(copy, WALKS)
    assert (tally.done, tally.skipped) == (1, 5)
    assert contents(copy) == before
    with pytest.raises(DamagedError, match="gc --damaged"):
        gc(filled)
    assert gc(filled, damaged=True).cells == 1
    assert key not in contents(filled)
    tally = do(filled, WALKS)
    assert (tally.done, tally.skipped) == (1, 5)
    assert contents(filled) == before


def test_gc_removes_only_unneeded_files(filled: Path) -> None:
    before = contents(filled)
    folder = sorted(filled.glob("arrays/*"))[0]
    orphan, draft = folder / f"{'0' * 64}.safetensors", folder / f"array.{'0' * 32}.draft"
    orphan.write_bytes(b"12345")
    draft.write_bytes(b"123")
    cleared = gc(filled)
    assert (cleared.files, cleared.bytes, cleared.cells) == (2, 8, 0)
    assert not orphan.exists()
    assert not draft.exists()
    assert contents(filled) == before


def test_gc_keeps_an_array_that_two_cells_share(tmp_path: Path) -> None:
    cells = [walk.cell(seed=0, steps=5), walk.cell(seed=0, steps=5, pause=0.001)]
    do(tmp_path, cells)
    assert len(list(tmp_path.glob("arrays/*/*"))) == 1
    meddle(tmp_path, f"DELETE FROM cells WHERE key = '{cells[0].key}'")
    assert gc(tmp_path).files == 0
    assert damages(tmp_path) == []


def test_gc_waits_for_no_run_and_clears_after_killed_ones(filled: Path) -> None:
    cell, dead = number.cell(seed=0, x=1.0), "0123456789abcdef" * 2
    with Store.create(filled) as store:
        with Lease(store) as running:
            running.take([(cell.key, cell)], failed_too=False)
            for damaged in (False, True):
                with pytest.raises(StoreError, match=r"A run on .* is in progress"):
                    gc(filled, damaged=damaged)
            assert store.statuses([cell.key]) == {cell.key: "running"}
        with store.transaction() as connection:
            connection.execute(rows.PUT, rows.StoredRecord(cell.key, cell, "running", dead).values)
    lock_path(filled, dead).touch()
    assert gc(filled).cells == 1
    assert list(alive.locks(filled)) == []
    assert cell.key not in contents(filled)


def test_gc_takes_no_array_that_a_row_is_about_to_name(tmp_path: Path) -> None:
    """A suspended run resumes after another run took over its cells and its arrays were removed."""
    cell = walk.cell(seed=0, steps=5)
    text, files = results.encode(walk(5, seed=0))
    with Store.create(tmp_path) as store, Lease(store) as frozen:
        frozen.take([(cell.key, cell)], failed_too=False)
        alive.forget(tmp_path, frozen.id)  # as a run does when it takes over
        put = arrays.put

        def put_and_clear(folder: Path, digest: str, data: bytes) -> None:
            put(folder, digest, data)
            if not store.connection.in_transaction:
                assert gc(tmp_path).files == 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrays, "put", put_and_clear)
            frozen.record([(cell.key, cell, CellOutcome(result=text, arrays=files))])
    assert damages(tmp_path) == []
    assert len(contents(tmp_path)) == 1


def test_gc_clears_drafts(filled: Path) -> None:
    mark = "0123456789abcdef" * 2
    (filled / f"report.html.{mark}.draft").write_bytes(b"12")
    (filled / f"salvaged.{mark}.draft").mkdir()
    (filled / f"salvaged.{mark}.draft" / "store.sqlite").touch()
    assert gc(filled).files == 1
    assert not list(filled.glob("*.draft"))


def test_json_has_everything(filled: Path) -> None:
    stream = io.StringIO()
    with Store.open(filled) as store:
        export.as_json(store, stream)
        records = list(store.records())
    rows = json.loads(stream.getvalue())
    assert [row["key"] for row in rows] == [record.key for record in records]
    for row, record in zip(rows, records, strict=True):
        assert row["parameters"] == json.loads(record.cell.parameters)
        assert row["result"] == (json.loads(record.result) if record.result else None)
        assert (row["status"], row["traceback"]) == (record.status, record.traceback)
        assert row["origin"]["separatrix"]


def test_csv_has_a_column_for_each_number(filled: Path) -> None:
    stream = io.StringIO(newline="")
    with Store.open(filled) as store:
        export.as_csv(store, stream)
        by_key = {record.key: record for record in store.records()}
        rows = list(csv.DictReader(stream.getvalue().splitlines()))
        assert len(rows) == 9
        for row in rows:
            record = by_key[row["key"]]
            if row["experiment"] == "tests.walk":
                result = store.result(record)
                assert float(row["result.end"]) == result["end"]
                assert int(row["result.largest.at"]) == result["largest"]["at"]
                assert (filled / "arrays" / row["result.path"][:2] / f"{row['result.path']}.safetensors").exists()
                assert (row["parameters.steps"], row["parameters.when"]) == ("20", "")
            else:
                assert row["result.seed"] == ("" if row["status"] == "failed" else row["seed"])


def test_an_empty_store_exports_as_nothing(tmp_path: Path) -> None:
    Store.create(tmp_path).close()
    with Store.open(tmp_path) as store:
        as_json, as_csv = io.StringIO(), io.StringIO()
        export.as_json(store, as_json)
        export.as_csv(store, as_csv)
    assert json.loads(as_json.getvalue()) == []
    assert as_csv.getvalue() == "key,experiment,version,seed,status,seconds,finished\n"
