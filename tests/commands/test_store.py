from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from separatrix.lab import Store, alive
from separatrix.lab.lease import Lease
from tests.commands.invoked import invoke
from tests.lab.experiments import fails, number, walk
from tests.lab.helpers import command, do, environment, fill


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    do(folder, [*(fails.cell(seed=seed, when=1) for seed in range(3)), walk.cell(seed=0, steps=4)])
    return folder


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


def test_ls_distinguishes_a_living_run_from_a_killed_one(filled: Path) -> None:
    cell = number.cell(seed=0, x=1.0)
    with Store.create(filled) as store, Lease(store) as lease:
        lease.take([(cell.key, cell)], failed_too=False)
        (line,) = invoke("store", "ls", "--store", filled, "--status", "running").stdout.splitlines()
        assert line.endswith('{"x":1.0}')
        alive.forget(filled, lease.id)
        (line,) = invoke("store", "ls", "--store", filled, "--status", "running").stdout.splitlines()
        assert "its run was killed; the next run repeats it" in line


def test_show(filled: Path) -> None:
    done = invoke("store", "show", walk.cell(seed=0, steps=4).key[:10], "--store", filled)
    assert done.exit_code == 0
    assert all(word in done.stdout for word in ("tests.walk, version 1", "done", "git", "torch", '"$array"'))
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
    assert invoke("store", "verify", "--store", filled).stdout == "4 cells, all checksums match.\n"
    next(filled.glob("arrays/*/*")).write_bytes(b"junk")
    damaged = invoke("store", "verify", "--store", filled)
    assert damaged.exit_code == 1
    assert "does not have the SHA-256 in its name" in damaged.stdout
    assert "1 damage found." in damaged.stderr
    assert f"gc --damaged --store {filled}" in damaged.stderr
    cleared = invoke("store", "gc", "--damaged", "--store", filled)
    assert cleared.stdout == "Removed 1 file of 4 bytes, and 1 cell, damaged or left by killed runs.\n"
    assert invoke("store", "verify", "--store", filled).exit_code == 0


@pytest.mark.parametrize("arguments", [["ls"], ["show", "00"], ["export"], ["verify"], ["gc"]])
def test_a_missing_store_is_reported_and_not_created(tmp_path: Path, arguments: list[str]) -> None:
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
