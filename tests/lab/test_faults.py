"""Killed runs, full disks: finished cells are kept, and the run can be completed."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from separatrix.lab import Store, StoreError, in_process, run
from separatrix.lab.upkeep import verify
from tests.lab.app import app
from tests.lab.experiments import walk
from tests.lab.helpers import command, contents, do, environment, finish, group_is_gone, start

pytestmark = pytest.mark.timeout(1800)  # many processes are started, one after the other, and the machine may be busy

SWEEP = """
experiment = "tests.walk"
trials = {trials}
[baseline]
pause = {pause}
[axes]
steps = [10, 1000]
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of 300 cells of 10 ms each, with arrays of two sizes."""
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP.format(trials=150, pause=0.01))
    return file


def arguments(sweep: Path, folder: Path) -> list[str]:
    return ["sweep", str(sweep), "--store", str(folder), "--module", "tests.lab.experiments", "--workers", "2"]


def check_sound(folder: Path) -> int:
    """Assert that the store opens and nothing in it is damaged; return how many cells are done."""
    if not (folder / "store.sqlite").exists():
        return 0
    connection = sqlite3.connect(folder / "store.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Store.create(folder) as store:  # also if the creation was interrupted
        assert list(verify(folder)) == []
        return store.counts().get(("tests.walk", "done"), 0)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def count_done(folder: Path) -> int:
    """The number of done cells, read by another process during a run."""
    if not (folder / "store.sqlite").exists():
        return 0
    connection = sqlite3.connect(folder / "store.sqlite", timeout=900)
    try:
        return connection.execute("SELECT count(*) FROM cells WHERE status = 'done'").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # the table does not exist yet
    finally:
        connection.close()


def kill_and_finish(sweep: Path, folder: Path, kills: int, seed: int) -> list[int]:
    """Kill a run at random moments, check the store each time, then finish it; return the numbers of done cells."""
    moments = random.Random(seed)
    done = [0]
    for _ in range(kills):
        target = done[-1] + moments.randint(1, 20)
        started = start(*arguments(sweep, folder))
        wait_until(lambda target=target: count_done(folder) >= target, "the run does not move")
        time.sleep(moments.uniform(0, 0.03))
        os.kill(started.pid, signal.SIGKILL)
        started.communicate()
        wait_until(lambda group=started.pid: group_is_gone(group), "workers outlive the run that was killed")
        done.append(check_sound(folder))
        assert done[-1] >= target, "a finished cell was lost"
    end = finish(*arguments(sweep, folder))
    assert end.returncode == 0, end.stderr
    return done


def compare_with_unbroken(sweep: Path, folder: Path, unbroken: Path) -> None:
    assert CliRunner().invoke(app, [*arguments(sweep, unbroken)[:-2], "--in-process"]).exit_code == 0
    assert check_sound(folder) == check_sound(unbroken)
    assert contents(folder) == contents(unbroken)


def test_killed_three_times_and_finished(sweep: Path, tmp_path: Path) -> None:
    done = kill_and_finish(sweep, tmp_path / "killed", kills=3, seed=1)
    assert done[-1] < 300, "the kills hit nothing"
    compare_with_unbroken(sweep, tmp_path / "killed", tmp_path / "unbroken")


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_killed_two_hundred_times_and_finished(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(SWEEP.format(trials=1500, pause=0.01))
    done = kill_and_finish(sweep, tmp_path / "killed", kills=200, seed=2)
    assert done[-1] < 3000, "the kills hit nothing"
    print(f"killed 200 times; cells done after each: {done}")
    compare_with_unbroken(sweep, tmp_path / "killed", tmp_path / "unbroken")


def test_a_killed_run_with_a_killed_creation(tmp_path: Path, sweep: Path) -> None:
    """A run that is killed while it creates the store leaves a valid store or none."""
    for i in range(6):
        started = start(*arguments(sweep, tmp_path / "early"))
        time.sleep(0.15 + 0.05 * i)
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        check_sound(tmp_path / "early")


@pytest.mark.parametrize("dask", [[], ["--dask", "local"]])
def test_ctrl_c_ends_immediately_says_how_to_continue_and_leaves_no_process(tmp_path: Path, dask: list[str]) -> None:
    if dask:
        pytest.importorskip("distributed")
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(SWEEP.format(trials=40, pause=0.1))
    started = start(*arguments(sweep, tmp_path / "results"), *dask, warnings="default" if dask else "error")
    wait_until(lambda: count_done(tmp_path / "results") > 0, "the run does not move")
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does: the signal goes to the workers too
    _, told = started.communicate(timeout=900)
    assert started.returncode == 130
    assert "Traceback" not in told
    assert f"separatrix sweep {sweep} --store {tmp_path / 'results'}" in told
    wait_until(lambda: group_is_gone(started.pid), "a process is left behind")
    done = check_sound(tmp_path / "results")
    assert f"Stopped. {done} of 80 cells are done and saved" in told
    assert {status for status, *_ in contents(tmp_path / "results").values()} == {"done"}
    end = finish(*arguments(sweep, tmp_path / "results"))
    assert end.returncode == 0
    assert f"80 of 80 cells are done, {80 - done} of them now" in end.stderr


def test_a_store_that_may_not_grow(tmp_path: Path) -> None:
    """At SQLite's own limit on pages the run ends with an error message, and can be resumed when there is space."""
    cells = [walk.cell(seed=seed, steps=100) for seed in range(120)]
    with Store.create(tmp_path) as store:
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(
            StoreError, match=r"disk is full .* Every cell that was done is kept; make room and run the"
        ):
            run(store, cells, in_process())
    done = check_sound(tmp_path)
    assert 0 < done < 120
    tally = do(tmp_path, cells)
    assert (tally.done, tally.skipped) == (120 - done, done)
    do(tmp_path / "unbroken", cells)
    assert contents(tmp_path) == contents(tmp_path / "unbroken")


@pytest.mark.parametrize(("limit", "steps"), [(1_000, 10), (30_000, 10), (60_000, 8_000), (100_000, 8_000)])
def test_a_limit_on_the_size_of_files(tmp_path: Path, limit: int, steps: int) -> None:
    """The system's file size limit hits the new database, a row, an array, or a row with arrays that fit."""
    file = tmp_path / "sweep.toml"
    file.write_text(f'experiment = "tests.walk"\ntrials = 100\n[axes]\nsteps = [{steps}]')
    folder = tmp_path / "results"
    sweep = ["sweep", str(file), "--store", str(folder), "--module", "tests.lab.experiments", "--in-process"]

    def few_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    end = subprocess.run(
        command(*sweep),
        env=environment(),
        preexec_fn=few_bytes,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert end.returncode == 2, end.stderr
    assert "Traceback" not in end.stderr
    assert "the disk is full or a size limit was reached" in end.stderr
    assert "Every cell that was done is kept" in end.stderr
    done = check_sound(folder)
    assert done < 100
    again = CliRunner().invoke(app, sweep)
    assert again.exit_code == 0, again.output
    assert f"100 of 100 cells are done, {100 - done} of them now" in again.stderr
    assert check_sound(folder) == 100
