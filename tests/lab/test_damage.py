"""A store with a damaged file: every flipped bit, truncation or swapped page is harmless, or is reported and repaired.

For each damage the commands run as a user runs them. If `store verify` prints nothing, every result is the one that was
written; if it prints an error, the advice in it works: after `store gc --damaged` the store is valid, and the next run
restores the lost results.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typer.testing import CliRunner, Result

from separatrix.lab import Cell, Store
from tests.lab.app import app
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import contents, do, fill

PAGE = 4096
LARGE = number.cell(seed=99, x=0.5)
ANOTHER = number.cell(seed=100, x=0.5)
CELLS: list[Cell] = [
    *(walk.cell(seed=seed, steps=3) for seed in range(4)),
    *(fails.cell(seed=seed, when=1) for seed in range(3)),
    *(number.cell(seed=seed, x=0.5) for seed in range(40)),
]
Contents = dict[str, tuple[str, str | None, tuple[bytes, ...]]]


@pytest.fixture(scope="module")
def shelf() -> Iterator[Path]:
    """A folder in memory if possible, because the tests create thousands of stores, and each waits for its disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def sound(shelf: Path) -> tuple[Path, Contents]:
    """A store with done and failed cells, among them results with arrays and a result of several pages."""
    folder = shelf / "sound"
    do(folder, CELLS)
    fill(folder, [LARGE], f'{{"y":"{"0123456789" * 2000}"}}')
    return folder, contents(folder)


@pytest.fixture(scope="module")
def unfinished(shelf: Path) -> tuple[Path, Contents]:
    """The same store after a killed run: most of the cells are in SQLite's write-ahead log."""
    folder = shelf / "going on"
    with Store.create(folder) as store:
        store.connection.execute("PRAGMA wal_autocheckpoint = 0")
        do(folder, CELLS)
        killed = shelf / "killed"
        shutil.copytree(folder, killed, ignore=shutil.ignore_patterns("*-shm"))
    return killed, contents(folder)


def reported_or_harmless(folder: Path, before: Contents, *, whole: bool) -> str:
    """Check that a damage is reported or harmless; return which. `whole`: silently losing a cell is an error."""
    verified = command("verify", folder)
    if verified.exit_code == 0:
        kept = {key: what for key, what in contents(folder).items() if what[0] != "running"}
        assert kept == before if whole else kept.items() <= before.items()
        do(folder, [ANOTHER])  # a valid store can also be written
        return "harmless" if kept == before else "harmless, and run again"
    assert verified.exit_code == 1, verified.output
    assert f"gc --damaged --store {folder}" in verified.output
    assert command("ls", folder).exit_code in (0, 2)
    exported = command("export", folder, "--format", "json")
    assert exported.exit_code in (0, 1, 2)
    if exported.exit_code == 0:  # then no row is missing
        assert {row["key"] for row in json.loads(exported.stdout)} >= before.keys()
    mended = command("gc", folder, "--damaged")
    assert mended.exit_code == 0, mended.output
    again = command("verify", folder)
    assert again.exit_code == 0, again.output
    kept = contents(folder)
    assert kept.items() <= before.items()
    do(folder, CELLS)
    assert before.items() - contents(folder).items() <= {(LARGE.key, before.get(LARGE.key))}
    return "reported, all kept" if kept == before else "reported, some run again"


def command(name: str, folder: Path, *options: str) -> Result:
    """Run a command as a user does; it never ends with a traceback."""
    done = CliRunner().invoke(app, ["store", name, "--store", str(folder), *options])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


Damages = Iterator[bytes]


def flipped(data: bytes, count: int, seed: int) -> Damages:
    """The bytes with one bit flipped at a random place."""
    draw = random.Random(seed)
    for _ in range(count):
        bit = draw.randrange(8 * len(data))
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        yield bytes(other)


def cut(data: bytes, count: int, seed: int) -> Damages:
    """The bytes truncated at a random place, often at the end of a page."""
    draw = random.Random(seed)
    yield b""
    for _ in range(count - 1):
        yield data[: draw.choice([draw.randrange(len(data)), PAGE * draw.randrange(len(data) // PAGE)])]


def swapped(data: bytes, count: int, seed: int) -> Damages:
    """The bytes with two pages exchanged."""
    draw = random.Random(seed)
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    for _ in range(count):
        i, j = draw.sample(range(len(pages)), 2)
        other = pages.copy()
        other[i], other[j] = pages[j], pages[i]
        yield b"".join(other)


def fates(
    shelf: Path, store: tuple[Path, Contents], file: str, damages: Damages, *, whole: bool = True
) -> Counter[str]:
    """Apply each damage to a file of a copy of the store; count the outcomes."""
    counted: Counter[str] = Counter()
    for data in damages:
        folder = shelf / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(store[0], folder)
        (folder / file).write_bytes(data)
        counted[reported_or_harmless(folder, store[1], whole=whole)] += 1
    print(f"{counted.total():,} damages to {file}: {dict(counted)}")
    return counted


KINDS = {"a flipped bit": (flipped, 8), "an end that is cut off": (cut, 4), "swapped pages": (swapped, 4)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file(shelf: Path, sound: tuple[Path, Contents], kind: str) -> None:
    damage, count = KINDS[kind]
    data = (sound[0] / "store.sqlite").read_bytes()
    counted = fates(shelf, sound, "store.sqlite", damage(data, count, seed=1))
    assert counted["reported, some run again"] > count // 4, "the damages hit nothing"


def test_a_damaged_header(shelf: Path, sound: tuple[Path, Contents]) -> None:
    """SQLite reads the rows, or it refuses the whole file and all cells are rerun.

    Bytes 18 and 19 are the versions for writing and for reading; an unknown version forbids access.
    """
    data = (sound[0] / "store.sqlite").read_bytes()
    versions = [bytes([*data[:byte], data[byte] ^ 1 << bit]) for byte in (18, 19) for bit in (0, 2, 7)]
    headers = [*flipped(data[:100], 6, seed=2), *(version + data[len(version) : 100] for version in versions)]
    counted = fates(shelf, sound, "store.sqlite", (head + data[100:] for head in headers))
    assert counted["reported, all kept"] >= 2
    assert counted["reported, some run again"] >= 2


def test_a_damaged_log(shelf: Path, unfinished: tuple[Path, Contents]) -> None:
    """SQLite drops the log after the damage, as if the run had been killed earlier."""
    data = (unfinished[0] / "store.sqlite-wal").read_bytes()
    assert len(data) > 10 * PAGE
    damages = chain(flipped(data, 4, seed=3), cut(data, 3, seed=3))
    counted = fates(shelf, unfinished, "store.sqlite-wal", damages, whole=False)
    assert counted["harmless, and run again"] > 2


def test_a_damaged_file_with_a_log(shelf: Path, unfinished: tuple[Path, Contents]) -> None:
    data = (unfinished[0] / "store.sqlite").read_bytes()
    fates(shelf, unfinished, "store.sqlite", flipped(data[:100], 4, seed=4))
