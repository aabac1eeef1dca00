"""The files of an untrusted working directory do not run in our child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from separatrix.children import safe_path
from separatrix.explorer.compute.upload import planned_file
from separatrix.explorer.learn.training_start import Starter
from separatrix.explorer.learn.training_state import run_status
from tests.explorer.learn.test_runs import SMALL, close, wait
from tests.lab.helpers import ROOT

NAMES = (
    "argparse", "copy", "json", "logging", "numpy", "pickle", "random", "select", "signal", "socket", "struct",
    "subprocess", "tempfile", "threading", "torch", "typing", "uuid",
)  # fmt: skip
SWEEP = 'experiment = "tests.number"\ntrials = 3\n[axes]\nx = [1.0]\n'


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that shadow others; an imported one writes a mark."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path)!r} + '/{name} ran', 'w')\n")
    (folder / "sweep.toml").write_text(SWEEP)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return folder


def ran(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("* ran"))


def command(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its script does: Python imports from the script's folder, not the working directory."""
    script = tmp_path / "bin" / "separatrix"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from separatrix.commands.main import main\nif __name__ == '__main__':\n    main()\n")
    return subprocess.run(
        [sys.executable, str(script), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", [["--workers", "2"], ["--dask", "local", "--workers", "1"]])
def test_the_workers_of_a_sweep(hostile: Path, tmp_path: Path, where: list[str]) -> None:
    if "--dask" in where:
        pytest.importorskip("distributed")
    module = ["--module", "tests.lab.experiments", "--store", str(tmp_path / "results")]
    done = command(tmp_path, "sweep", str(hostile / "sweep.toml"), *module, *where)
    assert ran(tmp_path) == []
    assert done.returncode == 0, done.stderr
    assert "3 of 3 cells are done" in done.stderr


@pytest.mark.timeout(900)
def test_a_training_run_of_the_page(hostile: Path, tmp_path: Path) -> None:
    starter = Starter(tmp_path / "results")
    try:
        name = starter.start(SMALL)
        wait(lambda: not run_status(tmp_path / "results", name).alive, 800)
    finally:
        close(starter)
    assert ran(tmp_path) == []
    assert run_status(tmp_path / "results", name).word == "finished"


@pytest.mark.timeout(900)
def test_the_plan_of_an_uploaded_file(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.explorer.compute.upload.SECONDS", 800.0)
    tensors = {name: torch.rand(8, 2) for name in ("q", "k1", "v1")}
    planned_file(save(tensors), 1e-3)
    assert ran(tmp_path) == []


def test_the_working_directory_is_an_attack(hostile: Path, tmp_path: Path) -> None:
    """Without our options Python imports from the working directory; with the environment of a child it does not."""
    words = [sys.executable, "-c", "import json"]
    with safe_path():
        subprocess.run(words, check=True)
    assert ran(tmp_path) == []
    assert "PYTHONSAFEPATH" not in os.environ
    subprocess.run(words, check=False)
    assert "json ran" in ran(tmp_path)
