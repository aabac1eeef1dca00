from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from separatrix.lab import Store, StoreError, export
from separatrix.lab.lease import Lease
from separatrix.lab.upkeep import gc, verify
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
    with Store.open(folder) as store:
        return [(damage.key, damage.what) for damage in verify(store)]


def test_a_sound_store(filled: Path) -> None:
    assert damages(filled) == []


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "UPDATE cells SET result = replace(result, '\"at\":', '\"at\":1')",
            "the result is not the one that was written",
        ),
        ("UPDATE cells SET parameters = '{}'", "the key is not that of the cell"),
        ("UPDATE cells SET seed = seed + 1", "the key is not that of the cell"),
        ("UPDATE cells SET result = NULL", "the cell is done, and has no result"),
        ("UPDATE cells SET status = 'failed'", "the cell is failed, and has a result"),
    ],
)
def test_a_changed_row_is_found(filled: Path, statement: str, what: str) -> None:
    key = WALKS[2].key
    meddle(filled, f"{statement} WHERE key = '{key}'")
    assert damages(filled) == [(key, what)]


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
    with Store.create(filled) as store:
        assert gc(store, damaged=True).cells == 1
    assert key not in contents(filled)
    tally = do(filled, WALKS)
    assert (tally.done, tally.skipped) == (1, 5)
    assert contents(filled) == before


def test_gc_removes_only_what_nothing_needs(filled: Path) -> None:
    before = contents(filled)
    folder = sorted(filled.glob("arrays/*"))[0]
    orphan, draft = folder / f"{'0' * 64}.safetensors", folder / "dead.draft"
    orphan.write_bytes(b"12345")
    draft.write_bytes(b"123")
    with Store.create(filled) as store:
        cleared = gc(store)
    assert (cleared.files, cleared.bytes, cleared.cells) == (2, 8, 0)
    assert not orphan.exists()
    assert not draft.exists()
    assert contents(filled) == before


def test_gc_keeps_an_array_that_two_cells_share(tmp_path: Path) -> None:
    cells = [walk.cell(seed=0, steps=5), walk.cell(seed=0, steps=5, pause=0.001)]
    do(tmp_path, cells)
    assert len(list(tmp_path.glob("arrays/*/*"))) == 1
    meddle(tmp_path, f"DELETE FROM cells WHERE key = '{cells[0].key}'")
    with Store.create(tmp_path) as store:
        assert gc(store).files == 0
    assert damages(tmp_path) == []


def test_gc_waits_for_no_run_and_buries_dead_ones(filled: Path) -> None:
    keyed = [(cell.key, cell) for cell in [number.cell(seed=0, x=1.0)]]
    with Store.create(filled) as store, Store.create(filled) as other:
        with Lease(other) as running:
            running.take(keyed, failed_too=False)
            with pytest.raises(StoreError, match=r"A run on .* is going on"):
                gc(store)
        meddle(filled, "INSERT INTO runs VALUES ('dead', 'host', 1, 0)")
        meddle(filled, "INSERT INTO cells (key, experiment, version, parameters, seed, status, run) "
                       "VALUES ('k', 'e', 1, '{}', 0, 'running', 'dead')")  # fmt: skip
        assert gc(store).cells == 1
        assert list(store.ask("SELECT * FROM runs")) == []


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
