"""`separatrix sweep`: its messages and exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.invoked import invoke
from tests.lab.experiments import walk
from tests.lab.helpers import command, contents, do, environment, finish

MODULE = ("--module", "tests.lab.experiments")


def write(folder: Path, text: str) -> Path:
    file = folder / "sweep.toml"
    file.write_text(text)
    return file


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
    assert "A worker died while running a cell 4 times." in done.stderr
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
        (["--in-process", "--workers", "2"], "--in-process: expected neither --workers nor --dask together with it"),
        (["--module", "no.such.module"], "--module: expected a module that Python can import, got 'no.such.module'"),
        (["--dask", "tcp://127.0.0.1:9", "--workers", "2"], "--workers: expected to be left out"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], told: str) -> None:
    file = write(tmp_path, 'experiment = "tests.walk"\ntrials = 4\n[axes]\nsteps = [5]')
    done = invoke("sweep", file, "--store", tmp_path / "r", *MODULE, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"separatrix: {told}")
    assert not (tmp_path / "r").exists()


def test_a_bad_sweep_is_reported_in_a_sentence_and_creates_no_store(tmp_path: Path) -> None:
    for text in ("experiment = ", 'experiment = "tests.walk"'):
        done = invoke("sweep", write(tmp_path, text), "--store", tmp_path / "r", *MODULE)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"separatrix: {tmp_path / 'sweep.toml'}")
    assert not (tmp_path / "r").exists()


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
    assert started.wait(900) == 0
    text = seen.decode()
    assert "━" in text
    assert "a second" in text
    assert "40/40" in text
    assert "40 of 40 cells are done" in text


@pytest.mark.parametrize(("name", "claims"), [("tests.number", 0), ("kronecker.lemma_e1", 1)])
def test_a_sweep_imports_the_claims_it_needs_and_no_others(tmp_path: Path, name: str, claims: int) -> None:
    """The modules of claims take seconds to import, and a sweep with nothing to do should not import them."""
    parameters = {"tests.number": "x = [1.0]", "kronecker.lemma_e1": "d = [2]\ndegree = [1]"}[name]
    sweep = write(tmp_path, f'experiment = "{name}"\ntrials = 1\n[axes]\n{parameters}')
    code = (
        "import sys, typer; from tests.lab.app import app\ntry: app(sys.argv[1:], standalone_mode=False)\nexcept "
        "typer.Exit: pass\nprint(sorted({name.split('.')[2] for name in sys.modules if "
        "name.startswith('separatrix.claims.')}))"
    )
    arguments = ["sweep", str(sweep), "--store", str(tmp_path / "r"), "--in-process", *MODULE]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment(), capture_output=True, text=True, check=True
    )
    imported = set(json.loads(done.stdout.replace("'", '"')))
    assert ("kronecker" in imported) == bool(claims)
    assert not imported & {"separation", "selection", "beyond"}
    assert "1 of 1 cell is done, 1 of them now" in done.stderr
    assert "1 cells" not in done.stderr
