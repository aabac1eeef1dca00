"""Stores from untrusted sources with correct checksums over arbitrary rows: such rows count as damaged."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from typer.testing import CliRunner, Result

from separatrix.commands.app import app
from separatrix.lab import Store, arrays, results, rows
from separatrix.lab.faults import DamagedError
from separatrix.lab.upkeep import gc, verify
from tests.lab.experiments import number
from tests.lab.helpers import contents, fill

PAGE = 4096
COMMANDS = (
    ["store", "ls"],
    ["store", "verify"],
    ["store", "export"],
    ["store", "export", "--format", "json"],
    ["store", "gc"],
    ["claims", "--place", "Definition C.2"],
)
CELLS = [number.cell(seed=seed, x=1.0) for seed in range(50)]
SOUND, FORGED = CELLS[:2]
ARRAY = {"sha256": "0" * 64, "dtype": "float64", "shape": [2]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path, [SOUND, FORGED], '{"y":1.0}')
    return tmp_path


def invoke(folder: Path, *words: str) -> Result:
    """Run a command as a user does; it never ends with a traceback."""
    done = CliRunner().invoke(app, [*words, "--store", str(folder)])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    assert "\x1b" not in done.output
    return done


def forge(folder: Path, id: int = 2, **fields: Any) -> None:
    """Change fields of a row, and give it a correct checksum, as far as JSON can represent the row."""
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    for name, value in fields.items():
        connection.execute(f"UPDATE cells SET {name} = ? WHERE id = ?", [value, id])
    (row,) = connection.execute(f"SELECT {rows.COLUMNS} FROM cells WHERE id = ?", [id])
    checksum = sha256(json.dumps(row, default=repr).encode()).hexdigest()
    connection.execute("UPDATE cells SET seal = ? WHERE id = ?", [checksum, id])
    connection.commit()
    connection.close()


def cell_fields(
    experiment: Any = "tests.number", version: Any = 1, parameters: Any = '{"x":1.0}', seed: Any = 1
) -> Any:
    """The fields of a cell with their matching key."""
    key = sha256(f"{json.dumps([experiment, version, seed], separators=(',', ':'))}{parameters}".encode()).hexdigest()
    return {"key": key, "experiment": experiment, "version": version, "parameters": parameters, "seed": seed}


def mark(**fields: Any) -> dict[str, Any]:
    return {"result": json.dumps({"y": {"$array": ARRAY | fields}})}


FORGERIES: dict[str, dict[str, Any]] = {
    "a result that is no JSON": {"result": "{"},
    "a result that is a list": {"result": "[1]"},
    "a result that is a number": {"result": 5},
    "a result of bytes": {"result": b"\xff"},
    "a result that is no UTF-8": {"result": sqlite3.Binary(b'{"y":"\xff"}')},
    "a result that is nested too deeply": {"result": '{"y":' * 100_000 + "1" + "}" * 100_000},
    "a result with a number of many digits": {"result": f'{{"y":{"1" * 10_000}}}'},
    "a result with NaN": {"result": '{"y":NaN}'},
    "a result with a control character": {"result": '{"y":"\x1b[2J"}'},
    "a result with a character that JSON allows and terminals hide": {"result": '{"y":"\x7f"}'},
    "a result that is empty": {"result": ""},
    "no result": {"result": None},
    "a float that is none": {"result": '{"y":{"$float":"abc"}}'},
    "a float that is a list": {"result": '{"y":{"$float":[]}}'},
    "an array that is a number": {"result": '{"y":{"$array":5}}'},
    "an array without a name": {"result": '{"y":{"$array":{}}}'},
    "an array with a path": mark(sha256="../../../../etc/passwd"),
    "an array whose name is a list": mark(sha256=[]),
    "an array of a negative shape": mark(shape=[-1]),
    "an array of a shape of text": mark(shape="2"),
    "an array of more fields": mark(other=1),
    "a status of its own": {"status": "\x1b[31mfine"},
    "a status that is bytes": {"status": b"done"},
    "running without a run": {"status": "running", "result": None},
    "failed with a result": {"status": "failed"},
    "a run although it is done": {"run": "0" * 32},
    "a time that is text": {"seconds": "long"},
    "a time that is infinite": {"seconds": float("inf")},
    "a date after the year 9999": {"finished": 1e300},
    "a date before 1970": {"finished": -1e300},
    "a date of bytes": {"finished": b"\0"},
    "a traceback of bytes": {"traceback": b"\xff"},
    "a traceback that is bytes in a failure": {"status": "failed", "result": None, "traceback": b"\x1b"},
    "an origin that is a number": {"origin": b"\0"},
    "a key of another cell": {"key": "f" * 64},
    "a key that is no key": {"key": "\x1b]0;title\x07"},
    "a key of bytes": {"key": b"\xff"},
    "a name of bytes": {"experiment": b"tests.number"},
    "a version of text": cell_fields(version="one"),
    "a negative version": cell_fields(version=-1),
    "a seed of text": cell_fields(seed="one"),
    "a negative seed": cell_fields(seed=-1),
    "parameters that are no JSON": cell_fields(parameters="{"),
    "parameters that are a list": cell_fields(parameters="[1]"),
    "parameters with a control character": cell_fields(parameters='{"x":"\x1b[2J"}'),
    "parameters that are nested too deeply": cell_fields(parameters='{"x":' * 100_000 + "1" + "}" * 100_000),
    "parameters with a float that is none": cell_fields(parameters='{"x":{"$float":"1.0.0"}}'),
}


def test_a_forged_row_is_a_damaged_row(tmp_path: Path) -> None:
    """Each forged row counts as damaged in a store in which every row but the first is forged."""
    fill(tmp_path, CELLS[: len(FORGERIES) + 1], '{"y":1.0}')
    for id, fields in enumerate(FORGERIES.values(), start=2):
        forge(tmp_path, id, **fields)
    codes = [invoke(tmp_path, *words).exit_code for words in COMMANDS]
    assert codes == [0, 1, 1, 1, 2, 0]
    reported = {damage.row.id for damage in verify(tmp_path)}
    assert [forgery for id, forgery in enumerate(FORGERIES, start=2) if id not in reported] == []
    keys = [cell.key for cell in CELLS]
    with Store.open(tmp_path) as store:
        assert [record.key for record in store.records()] == [SOUND.key]
        assert {key for key, status in store.statuses(keys).items() if status != "damaged"} == {SOUND.key}
    assert invoke(tmp_path, "store", "gc", "--damaged").exit_code == 0
    assert list(verify(tmp_path)) == []
    assert list(contents(tmp_path)) == [SOUND.key]


FACTS = ["{", "[1]", "5", '{"git":NaN}', '{"git":"\x1b[2J"}', '{"git":' * 100_000 + "1"]


def test_forged_facts_about_an_origin_cost_no_result(tmp_path: Path) -> None:
    fill(tmp_path, CELLS[: len(FACTS) + 1], '{"y":1.0}')
    for id, facts in enumerate(FACTS, start=2):
        connection = sqlite3.connect(tmp_path / "store.sqlite")
        connection.execute("INSERT INTO origins VALUES (?, ?)", [rows.named(facts), facts])
        connection.commit()
        connection.close()
        forge(tmp_path, id, origin=rows.named(facts))
    assert len(list(verify(tmp_path))) == len(FACTS)
    assert [invoke(tmp_path, *words).exit_code for words in COMMANDS] == [0, 1, 0, 0, 2, 0]
    for cell in CELLS[1 : len(FACTS) + 1]:
        assert invoke(tmp_path, "store", "show", cell.key).exit_code == 0
    assert invoke(tmp_path, "store", "gc", "--damaged").exit_code == 0
    assert len(contents(tmp_path)) == len(FACTS) + 1


def put_array(folder: Path, id: int, data: bytes, dtype: str = "float64", shape: tuple[int, ...] = (2,)) -> None:
    """Add an array file under its correct name, and a row that names it."""
    digest = sha256(data).hexdigest()
    arrays.put(folder / "arrays", digest, data)
    forge(folder, id, **mark(sha256=digest, dtype=dtype, shape=list(shape)))


ARRAYS: dict[str, tuple[Any, ...]] = {
    "no safetensors file": (b"junk",),
    "an empty file": (b"",),
    "a header of many bytes": (b"\xff" * 64,),
    "an array of another name": (safetensors.numpy.save({"other": np.zeros(2)}),),
    "another dtype": (results.pack(np.zeros(2, np.float32)),),
    "another shape": (results.pack(np.zeros(3)),),
    "a dtype that is none": (results.pack(np.zeros(2)), "object"),
    "a huge shape": (results.pack(np.zeros(2)), "float64", (2**62, 2**62)),
    "a dtype that numpy lacks": (
        (len(header := b'{"array":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}')).to_bytes(8, "little")
        + header
        + bytes(4),
    ),
}


def test_a_forged_array_is_a_damaged_array(tmp_path: Path) -> None:
    fill(tmp_path, CELLS[: len(ARRAYS) + 1], '{"y":1.0}')
    for id, array in enumerate(ARRAYS.values(), start=2):
        put_array(tmp_path, id, *array)
    assert [invoke(tmp_path, *words).exit_code for words in COMMANDS] == [0, 1, 0, 0, 2, 0]
    with Store.open(tmp_path) as store:
        for kind, cell in zip(ARRAYS, CELLS[1:], strict=False):
            assert store.statuses([cell.key]) == {cell.key: "damaged"}, kind
            with pytest.raises(DamagedError):
                store.result(store.record(cell.key))
    assert invoke(tmp_path, "store", "gc", "--damaged").exit_code == 0
    assert list(contents(tmp_path)) == [SOUND.key]


TRICK = "\x1b]0;title\x07\x1b[2J\rAll is well\n\u202e\x9b31m\ud800"


def test_no_terminal_control_sequence_is_printed(folder: Path) -> None:
    """A store with control characters in a name, a text of a result, a traceback and the facts of an origin."""
    name = TRICK.replace("\ud800", "")
    forge(folder, **cell_fields(experiment=name), result=json.dumps({name: TRICK}))
    key = next(key for key in contents(folder) if key != SOUND.key)
    printed = [invoke(folder, *words) for words in (*COMMANDS, ["store", "show", key])]
    assert [done.exit_code for done in printed] == [0] * 7
    facts = json.dumps({"host": TRICK})
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute("INSERT INTO origins VALUES (?, ?)", [rows.named(facts), facts])
    connection.commit()
    connection.close()
    forge(folder, status="failed", result=None, traceback=name, origin=rows.named(facts))
    printed += [invoke(folder, *words) for words in (*COMMANDS, ["store", "show", key])]
    for done in printed:
        shown = done.output.replace("\n", "").replace("\t", "")
        assert shown.isprintable(), ascii(done.output)
    lines = printed[0].stdout.splitlines()
    assert len(lines) == 2 + len(printed[0].stderr.splitlines()) * (printed[0].output == printed[0].stdout)


def test_json_keeps_the_texts_that_a_table_escapes(folder: Path) -> None:
    forge(folder, result=json.dumps({"y": "a\x1bb"}))
    table = invoke(folder, "store", "export").stdout
    assert [row["result.y"] for row in csv.DictReader(io.StringIO(table))] == ["1.0", "a\\x1bb"]
    exported = json.loads(invoke(folder, "store", "export", "--format", "json").stdout)
    assert exported[1]["result"]["y"] == "a\x1bb"


# Files whose tables or pages are forged


@pytest.mark.parametrize(
    "statements",
    [
        [
            "ALTER TABLE cells RENAME TO real",
            "CREATE VIEW cells AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
            "SELECT n.id, key, experiment, version, parameters, seed, status, run, seconds, finished, origin, result, "
            "traceback, seal FROM n, real",
        ],
        ["CREATE TRIGGER fired AFTER DELETE ON cells BEGIN DELETE FROM cells; END"],
        ["CREATE VIEW endless AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM n"],
        ["CREATE INDEX other ON cells (abs(seed))"],
        ["ALTER TABLE cells ADD COLUMN made GENERATED ALWAYS AS (abs(seed))"],
    ],
)
def test_a_file_with_other_tables_is_refused(folder: Path, statements: list[str]) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    for words in COMMANDS[:5]:
        done = invoke(folder, *words)
        assert done.exit_code in (1, 2)
        assert "its tables differ from those of the schema" in done.output
    assert gc(folder, damaged=True).salvaged == 0
    assert list(verify(folder)) == []


def test_an_endless_table_is_given_up(tmp_path: Path) -> None:
    """Each of a few pages refers to the next one hundreds of times, so that a scan would take forever."""
    fill(tmp_path, [number.cell(seed=seed, x=1.0) for seed in range(30)], '{"y":1.0}')
    path = tmp_path / "store.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'cells'").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    leaf = next(
        at // PAGE + 1
        for at in range(PAGE, len(data), PAGE)
        if data[at] == 13 and b"tests.number" in data[at : at + PAGE]
    )
    first, depth = len(data) // PAGE + 1, 8
    for level in range(depth):
        child = leaf if level == depth - 1 else first + level + 1
        data += interior_page(child)
    data[(root - 1) * PAGE : root * PAGE] = interior_page(first)
    data[18:20] = b"\2\2"
    data[28:32] = (len(data) // PAGE).to_bytes(4, "big")
    path.write_bytes(data)
    done = invoke(tmp_path, "store", "ls")
    assert done.exit_code == 2
    assert "a query takes more steps than a file of its size can need" in done.stderr
    assert invoke(tmp_path, "store", "export").exit_code == 2
    assert invoke(tmp_path, "store", "verify").exit_code == 1
    assert invoke(tmp_path, "store", "gc", "--damaged").exit_code == 0
    assert list(verify(tmp_path)) == []


def interior_page(child: int) -> bytes:
    """An interior page of a table with 400 cells that all refer to the same page."""
    count = 400
    cells = b"".join(child.to_bytes(4, "big") + bytes([n % 127 + 1]) for n in range(count))
    start = PAGE - len(cells)
    pointers = b"".join((start + 5 * n).to_bytes(2, "big") for n in range(count))
    header = b"\5\0\0" + count.to_bytes(2, "big") + start.to_bytes(2, "big") + b"\0" + child.to_bytes(4, "big")
    return (header + pointers).ljust(start, b"\0") + cells


def test_export_is_complete_or_fails(tmp_path: Path) -> None:
    """With any two pages of the file exchanged, and with single rows changed, an export is complete or fails."""
    fill(tmp_path / "sound", CELLS, '{"y":1.0}')
    data = (tmp_path / "sound" / "store.sqlite").read_bytes()
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    (tmp_path / "swapped").mkdir()
    codes = []
    for i in range(1, len(pages)):
        for j in range(i + 1, len(pages)):
            other = pages.copy()
            other[i], other[j] = pages[j], pages[i]
            (tmp_path / "swapped" / "store.sqlite").write_bytes(b"".join(other))
            done = invoke(tmp_path / "swapped", "store", "export", "--format", "json")
            codes.append(done.exit_code)
            if done.exit_code == 0:
                assert len(json.loads(done.stdout)) == len(CELLS)
    assert codes.count(2) > len(codes) // 2
