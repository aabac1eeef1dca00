"""Large stores: the memory of a command does not grow with them. Times are printed, never judged."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.experiments import number
from tests.lab.helpers import environment, fill

# Not getrusage, which also counts the process from which this one was forked.
PEAK = """
import atexit, re, sys
from pathlib import Path
from tests.lab.app import app
peak = lambda: re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
atexit.register(lambda: print(peak(), file=sys.stderr))
app()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")


def peak(*arguments: str | Path) -> tuple[float, str]:
    """The peak memory of a lab command in MiB, and its output; its time is printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    took = int(done.stderr.split()[-1]) / 1024
    print(f"{time.perf_counter() - started:.2f} s and {took:.0f} MiB for {' '.join(map(str, arguments[:2]))}")
    return took, done.stdout + done.stderr


def store_of(folder: Path, count: int) -> tuple[Path, Path]:
    """A sweep of this number of cells, all of them done."""
    folder.mkdir()
    sweep = folder / "sweep.toml"
    sweep.write_text(
        f'experiment = "tests.number"\ntrials = {count // 10}\n[axes]\nx = {{from = 1, to = 10, step = 1}}'
    )
    for x in range(1, 11):
        fill(folder, (number.cell(seed=seed, x=x) for seed in range(count // 10)), '{"y":0.0}')
    return sweep, folder


def compare(tmp_path: Path, small: int, large: int) -> None:
    module = ("--module", "tests.lab.experiments")
    sweeps = [store_of(tmp_path / str(count), count) for count in (small, large)]
    for tail in (("ls",), ("verify",), ("export", "--format", "json"), ("export", "--format", "csv")):
        (few, _), (many, text) = (peak("store", *tail, "--store", folder) for _, folder in sweeps)
        assert many < few + 8, f"store {' '.join(tail)} holds the store in memory"
        assert text.count("\n") > large or tail == ("verify",)
    (few, _), (many, text) = (peak("sweep", sweep, "--store", folder, *module) for sweep, folder in sweeps)
    assert many < few + 8, "to skip cells takes memory"
    assert f"{large:,} of {large:,} cells are done, 0 of them now" in text


def test_memory_is_flat(tmp_path: Path) -> None:
    compare(tmp_path, 100, 20_000)


@pytest.mark.soak
def test_a_hundred_thousand_cells(tmp_path: Path) -> None:
    compare(tmp_path, 1_000, 100_000)
