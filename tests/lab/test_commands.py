from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from separatrix.lab import Store, alive, progress
from separatrix.lab.lease import Lease
from separatrix.lab.progress import Bars, Lines, Tally
from tests.lab.app import app
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import command, contents, do, environment, fill, finish

MODULE = ("--module", "tests.lab.experiments")


def invoke(*arguments: str | Path):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    do(folder, [*(fails.cell(seed=seed, when=1) for seed in range(3)), walk.cell(seed=0, steps=4)])
    return folder


def write(folder: Path, text: str) -> Path:
    file = folder / "sweep.toml"
    file.write_text(text)
    return file


def test_ls(filled: Path) -> None:
    done = invoke("store", "ls", "--store", filled)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    key = fails.cell(seed=1, when=1).key[:12]
    assert lines[1].split()[:2] == [key, "failed"]
    assert lines[1].endswith('tests.fails  seed=1  {"when":1}')
    assert done.stderr.splitlines() == ["2 done: tests.fails", "1 failed: tests.fails", "1 done: tests.walk"]
    assert len(invoke("store", "ls", "--store", filled, "--status", "failed").stdout.splitlines()) == 1
    assert len(invoke("store", "ls", "--store", filled, "--experiment", "tests.walk").stdout.splitlines()) == 1


def test_ls_tells_a_living_run_from_a_killed_one(filled: Path) -> None:
    cell = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store, Lease(store) as lease:
        lease.take([(cell.key, cell)], failed_too=False)
        (line,) = invoke("store", "ls", "--store", filled, "--status", "running").stdout.splitlines()
        assert line.endswith('{"x":1.0}')
        alive.forget(filled, lease.id)
        (line,) = invoke("store", "ls", "--store", filled, "--status", "running").stdout.splitlines()
        assert "its run was killed, the next one does it again" in line


def test_show(filled: Path) -> None:
    done = invoke("store", "show", walk.cell(seed=0, steps=4).key[:10], "--store", filled)
    assert done.exit_code == 0
    assert all(word in done.stdout for word in ("tests.walk, recipe version 1", "done", "git", "torch", '"$array"'))
    failed = invoke("store", "show", fails.cell(seed=1, when=1).key, "--store", filled)
    assert "ZeroDivisionError: seed 1 was told to fail" in failed.stdout
    missing = invoke("store", "show", "0" * 64, "--store", filled)
    assert missing.exit_code == 2
    assert missing.stderr.startswith("separatrix: In ")


def test_export(filled: Path, tmp_path: Path) -> None:
    rows = json.loads(invoke("store", "export", "--format", "json", "--store", filled).stdout)
    assert len(rows) == 4
    invoke("store", "export", "--store", filled, "--output", tmp_path / "table.csv", "--experiment", "tests.fails")
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 4
    bad = invoke("store", "export", "--store", filled, "--output", tmp_path / "no" / "such.csv")
    assert bad.exit_code == 2
    assert "no/such.csv could not be used (No such file or directory)" in bad.stderr


def test_verify_and_gc(filled: Path) -> None:
    assert invoke("store", "verify", "--store", filled).stdout == "4 cells, all as they were written.\n"
    next(filled.glob("arrays/*/*")).write_bytes(b"junk")
    damaged = invoke("store", "verify", "--store", filled)
    assert damaged.exit_code == 1
    assert "does not hold what its name says" in damaged.stdout
    assert "1 damage found." in damaged.stderr
    assert f"gc --damaged --store {filled}" in damaged.stderr
    cleared = invoke("store", "gc", "--damaged", "--store", filled)
    assert cleared.stdout == "Removed 1 file of 4 bytes, forgot 1 cell left by killed runs or damaged.\n"
    assert invoke("store", "verify", "--store", filled).exit_code == 0


@pytest.mark.parametrize("arguments", [["ls"], ["show", "00"], ["export"], ["verify"], ["gc"]])
def test_a_store_that_is_not_there_is_said_and_not_made(tmp_path: Path, arguments: list[str]) -> None:
    done = invoke("store", *arguments, "--store", tmp_path / "nowhere")
    assert done.exit_code == 2
    assert done.stderr.startswith("separatrix: There is no store in")
    assert not (tmp_path / "nowhere").exists()


def test_a_reader_that_stops_reading(filled: Path) -> None:
    fill(filled, [number.cell(seed=seed, x=0.0) for seed in range(3000)], '{"y":0.0}')
    shell = " ".join([*command("store", "ls", "--store", filled), "| head -n 1"])
    done = subprocess.run(shell, shell=True, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_sweep_that_fails_says_so_and_exits_with_1(tmp_path: Path) -> None:
    file = write(tmp_path, 'experiment = "tests.fails"\ntrials = 5\n[axes]\nwhen = [1, 7]')
    done = finish("sweep", file, "--store", tmp_path / "r", *MODULE, "--workers", "1")
    assert done.returncode == 1
    assert "9 of 10 cells are done, 9 of them now" in done.stderr
    assert "1 cell failed, 0 of them in an earlier run." in done.stderr
    again = invoke("sweep", file, "--store", tmp_path / "r", *MODULE, "--in-process")
    assert again.exit_code == 1
    assert "1 cell failed, 1 of them in an earlier run." in again.stderr
    retried = invoke("sweep", file, "--store", tmp_path / "r", *MODULE, "--in-process", "--retry-failed")
    assert "1 cell failed, 0 of them in an earlier run." in retried.stderr


def test_a_sweep_whose_workers_die_says_so_and_exits_with_1(tmp_path: Path) -> None:
    text = f'experiment = "tests.kills_worker"\ntrials = 3\n[baseline]\nfolder = "{tmp_path}"\ntimes = 9'
    done = finish("sweep", write(tmp_path, text), "--store", tmp_path / "r", *MODULE)
    assert done.returncode == 1
    assert "2 of 3 cells are done" in done.stderr
    assert "A worker died under a cell 4 times." in done.stderr
    assert done.stderr.count("which will be tried again") == 3


def test_dask_local_from_the_command(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    file = write(tmp_path, 'experiment = "tests.walk"\ntrials = 4\n[axes]\nsteps = [5]')
    options = ("--store", tmp_path / "r", *MODULE, "--dask", "local", "--workers", "2")
    done = finish("sweep", file, *options, warnings="default")
    assert done.returncode == 0, done.stderr
    do(tmp_path / "plain", [walk.cell(seed=seed, steps=5) for seed in range(4)])
    assert contents(tmp_path / "r") == contents(tmp_path / "plain")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workers", "0"], "--workers: expected an integer >= 1, got 0."),
        (["--in-process", "--workers", "2"], "--in-process: expected neither --workers nor --dask beside it"),
        (["--module", "no.such.module"], "--module: expected a module that Python can import, got no.such.module"),
        (["--dask", "tcp://127.0.0.1:9", "--workers", "2"], "--workers: expected to be left out"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], told: str) -> None:
    file = write(tmp_path, 'experiment = "tests.walk"\ntrials = 4\n[axes]\nsteps = [5]')
    done = invoke("sweep", file, "--store", tmp_path / "r", *MODULE, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"separatrix: {told}")
    assert not (tmp_path / "r").exists()


def test_a_bad_sweep_is_told_in_a_sentence_and_makes_no_store(tmp_path: Path) -> None:
    for text in ("experiment = ", 'experiment = "tests.walk"'):
        done = invoke("sweep", write(tmp_path, text), "--store", tmp_path / "r", *MODULE)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"separatrix: {tmp_path / 'sweep.toml'}")
    assert not (tmp_path / "r").exists()


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_lines_come_now_and_then(tmp_path: Path, clock: Clock) -> None:
    with (tmp_path / "log").open("w") as stream, progress.on(101, stream) as lines:
        assert isinstance(lines, Lines)
        lines.show(Tally(skipped=20))
        for second in range(1, 21):
            clock.now = second
            lines.show(Tally(skipped=20, done=second * 4, failed=second >= 10, failed_before=0))
    assert (tmp_path / "log").read_text().splitlines() == [
        "20 of 101 cells",
        "61 of 101 cells, 4.1 a second, 9.8 s left, 1 failed",
        "101 of 101 cells, 4.05 a second, 0.0 s left, 1 failed",
    ]


def test_bars_on_a_terminal(tmp_path: Path) -> None:
    file = write(tmp_path, 'experiment = "tests.walk"\ntrials = 40\n[baseline]\npause = 0.02\n[axes]\nsteps = [5]')
    screen, terminal = pty.openpty()
    arguments = command("sweep", file, "--store", tmp_path / "r", *MODULE, "--in-process")
    environment_of_terminal = {**environment(), "TERM": "xterm", "COLUMNS": "100"}
    started = subprocess.Popen(arguments, env=environment_of_terminal, stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    seen = b""
    while True:
        try:
            piece = os.read(screen, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(screen)
    assert started.wait(60) == 0
    text = seen.decode()
    assert "━" in text
    assert "a second" in text
    assert "40/40" in text
    assert "40 of 40 cells are done" in text


def test_bars_tell_notes_above(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream, Bars(10, stream) as bars:
        bars.show(Tally(done=5))
        bars.note("a worker died with x[1]")
    assert "a worker died with x[1]" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("name", "claims"), [("tests.number", 0), ("kronecker.lemma_e1", 1)])
def test_a_sweep_imports_the_claims_it_needs_and_no_others(tmp_path: Path, name: str, claims: int) -> None:
    """All of them take seconds to import, and a sweep that has nothing left to do should not."""
    parameters = {"tests.number": "x = [1.0]", "kronecker.lemma_e1": "d = [2]\ndegree = [1]"}[name]
    sweep = write(tmp_path, f'experiment = "{name}"\ntrials = 1\n[axes]\n{parameters}')
    code = (
        "import sys, typer; from tests.lab.app import app\n"
        "try: app(sys.argv[1:], standalone_mode=False)\n"
        "except typer.Exit: pass\n"
        "print(sorted({name.split('.')[2] for name in sys.modules if name.startswith('separatrix.claims.')}))"
    )
    arguments = ["sweep", str(sweep), "--store", str(tmp_path / "r"), "--in-process", *MODULE]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment(), capture_output=True, text=True, check=True
    )
    imported = set(json.loads(done.stdout.replace("'", '"')))
    assert ("kronecker" in imported) == bool(claims)
    assert not imported & {"separation", "selection", "beyond"}
    assert "1 of 1 cells are done, 1 of them now" in done.stderr
