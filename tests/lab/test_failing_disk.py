"""A disk that fails at any call of a sweep, a reproduction or a training run: see `failing_disk.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.helpers import ROOT, environment
from tests.lab.power_cut import Call, Disk

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_the_layer = pytest.mark.skipif(
    sys.platform != "linux" or COMPILER is None, reason="the failing disk is a C library that Linux loads first"
)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer of files, compiled."""
    library = tmp_path_factory.mktemp("layer") / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    words = [COMPILER, "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run([*words, "-ldl", "-lpthread"], check=True)
    return library


def cases(layer: Path, scenario: str, stride: int) -> dict[str, int]:
    """Let the disk fail at every `stride`-th call; how many cases there were of each kind and end."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.failing_disk", scenario, str(stride)],
        cwd=ROOT,
        env={**environment("default"), **threads, "LD_PRELOAD": str(layer)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted: dict[str, int] = json.loads(done.stdout)
    print(f"{scenario}: {counted}")
    return counted


@needs_the_layer
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("scenario", "stride"), [("sweep", 29), ("training", 29)])
def test_a_disk_that_fails_now_and_then(layer: Path, scenario: str, stride: int) -> None:
    counted = cases(layer, scenario, stride)
    assert counted["calls"] > 25
    for kind in ("an error, ended with a sentence", "a full disk, ended with a sentence", "a kill, killed"):
        assert counted[kind] > 0
    assert counted["a power cut"] >= 2 * (counted["calls"] // stride)


@needs_the_layer
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("scenario", ["sweep", "reproduction", "training"])
def test_a_disk_that_fails_at_every_call(layer: Path, scenario: str) -> None:
    counted = cases(layer, scenario, 1)
    ends = {kind: count for kind, count in counted.items() if kind not in ("calls", "a power cut")}
    assert sum(ends.values()) == 3 * counted["calls"]
    assert counted["a kill, killed"] > 0.9 * counted["calls"]
    assert counted["a power cut"] == 2 * counted["calls"]


def written(path: str, data: bytes, offset: int = 0) -> Call:
    return Call("w", 1, offset, path, "", data)


@pytest.mark.parametrize(
    ("calls", "sure", "early"),
    [
        ([written("/d/a", b"xy")], {}, {"a": b""}),
        ([written("/d/a", b"xy"), Call("s", 1, 0, "/d/a", "", b"")], {}, {"a": b"xy"}),
        (
            [written("/d/a", b"xy"), Call("s", 1, 0, "/d/a", "", b""), Call("s", 2, 0, "/d", "folder", b"")],
            {"a": b"xy"},
            {"a": b"xy"},
        ),
        (
            [
                written("/d/a", b"xy"),
                Call("s", 1, 0, "/d/a", "", b""),
                Call("s", 2, 0, "/d", "folder", b""),
                written("/d/a", b"z", offset=3),
                Call("t", 1, 1, "/d/a", "", b""),
                written("/d/b", b"new"),
                Call("r", 3, 0, "/d/b", "/d/a", b""),
            ],
            {"a": b"xy"},
            {"a": b""},
        ),
        (
            [written("/d/a", b"x"), Call("l", 1, 0, "/d/a", "/d/b", b""), Call("s", 1, 0, "/d/b", "", b"")],
            {},
            {"a": b"x", "b": b"x"},
        ),
        (
            [Call("m", 1, 0, "/d/e", "", b""), written("/d/e/a", b"x"), Call("s", 1, 0, "/d/e", "folder", b"")],
            {},
            {"e/a": b""},
        ),
    ],
)
def test_what_a_power_cut_leaves(tmp_path: Path, calls: list[Call], sure: object, early: object) -> None:
    disk = Disk()
    for call in calls:
        disk.do(call)
    for names_are_early, expected in ((False, sure), (True, early)):
        target = tmp_path / str(names_are_early)
        disk.left("/d", target, names_are_early=names_are_early)
        found = {str(file.relative_to(target)): file.read_bytes() for file in target.rglob("*") if file.is_file()}
        assert found == expected


@needs_the_layer
def test_the_layer_does_what_it_says(layer: Path, tmp_path: Path) -> None:
    """Each mode, on a program that writes ten bytes three times."""
    code = (
        "import ctypes, os, sys\n"
        "watch = ctypes.CDLL(None).disk_watch\n"
        "watch(os.fsencode(sys.argv[1]), int(sys.argv[2]), ctypes.c_long(2), -1)\n"
        "file = os.open(sys.argv[1] + '/file', os.O_WRONLY | os.O_CREAT)\n"
        "for _ in range(3):\n"
        "    try: print(os.write(file, b'0123456789'))\n"
        "    except OSError as error: print(error.errno)"
    )
    ends = {0: ("10 10 10", 30), 1: ("10 5 10", 20), 2: ("10 5 28", 15), 3: ("10", 15)}
    for mode, (told, size) in ends.items():
        folder = tmp_path / str(mode)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-u", "-c", code, str(folder), str(mode)],
            env={**os.environ, "LD_PRELOAD": str(layer)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (" ".join(done.stdout.split()), (folder / "file").stat().st_size) == (told, size), (mode, done.stderr)
