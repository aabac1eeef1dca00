"""Training runs of the page: started, watched, stopped, resumed, ended with the page; and runs of other stores."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from separatrix.claims.selection.figure_8 import heat_maps
from separatrix.claims.selection.training import training
from separatrix.commands.app import app as command_line
from separatrix.errors import SeparatrixError
from separatrix.explorer.learn import figures as learn_figures
from separatrix.explorer.learn import run_panel, supervisor, training_runs, training_start
from separatrix.explorer.learn.run_choices import RunChoices
from separatrix.explorer.learn.training_runs import TrainingRun, listed, read_run
from separatrix.explorer.learn.training_start import MOST_RUNS, Starter
from separatrix.explorer.learn.training_state import RunStatus, alive, run_status
from separatrix.lab import Store, in_process
from separatrix.lab import run as run_cells
from separatrix.lab.interrupts import noted
from separatrix.lab.lease import Lease
from separatrix.runs.train import kept, trained
from tests.lab.helpers import contents

SMALL = RunChoices(T=8, q=2, d=2, width=16, eta=1.0, steps=100, seed=3)
NONE = "run-0123456789ab"
LONG = RunChoices(T=32, q=2, d=3, width=48, eta=1.0, steps=20_000, seed=0)


def wait(for_: Callable[[], Any], seconds: float = 900.0) -> Any:
    """Wait until a condition is true; the limit allows for a busy machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := for_():
            return found
        time.sleep(0.05)
    return pytest.fail("it never came true")


def close(starter: Starter) -> None:
    """End all runs that the page started, as at the end of the explorer, and wait for them."""
    for one in starter.held.values():
        assert one.stdin is not None
        one.stdin.close()
        one.wait()
    starter.held.clear()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    made = Starter(tmp_path)
    yield made
    close(made)
    assert alive(tmp_path) is None


def test_a_run_is_that_of_the_command(starter: Starter, tmp_path: Path) -> None:
    name = starter.start(SMALL)
    assert name == SMALL.name() == alive(tmp_path)
    wait(lambda: not run_status(tmp_path, name).alive)
    assert run_status(tmp_path, name).word == "finished"
    found = read_run(tmp_path, name)
    assert (found.steps, found.step[-1], found.stopped) == (100, 100, None)
    assert found.kept == tuple(range(5, 101, 5))
    # The command that the page offers to copy gives the same results.
    own = tmp_path / "own"
    done = CliRunner().invoke(command_line, [*shlex.split(SMALL.command())[1:], "--store", str(own)])
    assert done.exit_code == 0
    assert contents(own) == contents(tmp_path)
    context = SimpleNamespace(store=own)
    assert run_panel.status_of(context, name, read_run(own, name)).word == "finished"
    assert listed(own) == listed(tmp_path) == {name: "T = 8, q = 2, stochastic, sgd, seed 3"}
    step, W, V = found.at(10**6)
    assert (step, W.shape, V.shape) == (100, (18, 18), (2, 18))
    assert found.at(0)[0] == found.kept[0]
    assert learn_figures.losses(found).columns["step"] == list(found.step)
    drawn = learn_figures.weights(step, W, V, name)
    assert len(drawn.columns["value"]) == 18 * 18 + 2 * 18
    with pytest.raises(SeparatrixError, match="cannot be resumed: it is finished"):
        starter.go_on(name)
    with pytest.raises(SeparatrixError, match="is not running: it is finished"):
        starter.stop(name)
    with pytest.raises(SeparatrixError, match="is finished: another seed makes another run"):
        starter.start(SMALL)


def test_the_program_to_copy_gives_the_same_records(starter: Starter) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(SMALL.python(), {})
    steps = [line.split()[0] for line in out.getvalue().splitlines()]
    assert steps == [str(step) for step in range(101)]


def test_a_run_is_watched_stopped_and_goes_on(starter: Starter, tmp_path: Path) -> None:
    name = starter.start(LONG)
    with pytest.raises(SeparatrixError, match=f"{name} is still running, and only one run at a time"):
        starter.start(SMALL)
    assert sorted(one.name for one in (tmp_path / "training").iterdir()) == ["lock", name]
    assert name in listed(tmp_path)
    # Another explorer on the same store sees the run, may not start one, and can stop it.
    other = Starter(tmp_path)
    with pytest.raises(SeparatrixError, match="still running"):
        other.start(SMALL)
    assert run_status(tmp_path, name).word == "running"
    assert read_run(tmp_path, name).steps == 20_000
    wait(lambda: read_run(tmp_path, name).kept)
    other.stop(name)
    assert run_status(tmp_path, name).word in ("stopping", "stopped")
    wait(lambda: not run_status(tmp_path, name).alive)
    assert (run_status(tmp_path, name).word, run_status(tmp_path, name).resumable) == ("stopped", True)
    before = read_run(tmp_path, name)
    assert 0 < before.step[-1] < 20_000
    starter.go_on(name)
    wait(lambda: read_run(tmp_path, name).step[-1] > before.step[-1])
    assert run_status(tmp_path, name).alive
    # The run ends when the explorer ends.
    close(starter)
    assert "ended with the explorer" in run_status(tmp_path, name).message
    assert json.loads((tmp_path / "training" / name / "end.json").read_text())["how"] == "ended with the explorer"


def test_a_run_ends_even_if_the_explorer_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, time\nfrom separatrix.explorer.learn.run_choices import RunChoices\nfrom "
        "separatrix.explorer.learn.training_start import "
        f"Starter\nprint(Starter(pathlib.Path(sys.argv[1])).start({LONG!r}), flush=True)\ntime.sleep(600)"
    )
    explorer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert explorer.stdout is not None
    with explorer.stdout:
        name = explorer.stdout.readline().strip()
    assert alive(tmp_path) == name
    explorer.kill()
    explorer.wait()
    wait(lambda: alive(tmp_path) is None)
    assert run_status(tmp_path, name).resumable


def test_a_run_that_fails_says_why(starter: Starter, tmp_path: Path) -> None:
    wrong = RunChoices(T=8, q=2, d=2, width=16, eta=1.0, steps=100, seed=0)
    object.__setattr__(wrong, "arguments", lambda: ["train", "selection", "--q", "0"])
    name = starter.start(wrong)
    wait(lambda: not run_status(tmp_path, name).alive)
    assert run_status(tmp_path, name).word == "failed"
    assert "q: expected an integer" in run_status(tmp_path, name).message
    assert read_run(tmp_path, name).step == ()


def test_invalid_runs_are_not_started(starter: Starter, tmp_path: Path) -> None:
    with pytest.raises(SeparatrixError, match="threshold: expected at least"):
        starter.start(RunChoices(T=64, q=2, d=2, width=8, eta=1.0, steps=100, seed=0))
    assert not (tmp_path / "training").exists()


def test_the_number_of_runs_is_limited(starter: Starter, tmp_path: Path) -> None:
    for at in range(MOST_RUNS):
        (tmp_path / "training" / f"run-{at:012x}").mkdir(parents=True)
    with pytest.raises(SeparatrixError, match="remove some first"):
        starter.start(SMALL)


@pytest.mark.parametrize("name", ["", "..", f"{NONE}/../../x", NONE, "/etc", "cell-abc", "run-" + "\u0661" * 12])
def test_a_name_is_not_a_path(starter: Starter, tmp_path: Path, name: str) -> None:
    (tmp_path / "training").mkdir()
    for act in (starter.stop, starter.go_on, lambda one: read_run(tmp_path, one)):
        with pytest.raises(SeparatrixError, match="run: expected"):
            act(name)
    assert [one.name for one in (tmp_path / "training").iterdir()] == []


def test_a_killed_run_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "training" / NONE
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"arguments": [], "seed": 0, "steps": 70}))
    assert run_status(tmp_path, NONE).word == "cut off"
    assert read_run(tmp_path, NONE).steps == 70


def test_a_run_of_the_command_is_listed_before_it_ends(tmp_path: Path) -> None:
    settings = SMALL.settings()
    with Store.create(tmp_path) as store, noted(), Lease(store) as lease:
        records = trained(lease, settings, SMALL.checkpoint_every, kept(store, settings, SMALL.checkpoint_every))
        while next(records).step < 20:
            pass
        records.close()
    found = read_run(tmp_path, SMALL.name())
    assert (found.step[-1], found.kept, found.steps) == (15, (5, 10, 15), 100)
    assert (found.at(12)[0], found.at(0)[0], found.at(10**6)[0]) == (10, 5, 15)


def test_damaged_weights_are_reported(tmp_path: Path) -> None:
    settings = SMALL.settings()
    with Store.create(tmp_path) as store, noted(), Lease(store) as lease:
        list(trained(lease, settings, 100, kept(store, settings, 100)))
    for file in tmp_path.glob("arrays/*/*"):
        file.write_bytes(b"nothing")
    [name] = listed(tmp_path)
    found = read_run(tmp_path, name)
    assert found.kept == (100,)
    with pytest.raises(SeparatrixError, match="does not have the SHA-256 in its name"):
        found.at(5)


def test_runs_of_the_claims_are_found_in_the_store(tmp_path: Path) -> None:
    small = {"T": 8, "q": 2, "d": 2, "width": 16, "threshold": 0.5, "batch": 8, "steps": 40, "records": 4}
    cells = [
        heat_maps.cell(seed=0, steps=600, query="zero"),
        training.cell(seed=1, encoding="fixed", optimiser="adam", initial="random", **small),
    ]
    with Store.create(tmp_path) as store:
        run_cells(store, cells, in_process())
    names = listed(tmp_path)
    assert sorted(names.values()) == ["claims: Figure 8, 600 steps", "claims: T = 8, fixed, adam, seed 1"]
    first, second = (read_run(tmp_path, name) for name in names)
    assert first.kept == (0, 100, 500, 600)
    assert (first.at(100)[0], first.at(150)[0], first.at(10**6)[0]) == (100, 100, 600)
    assert first.at(150)[1].shape == (40, 40)
    assert list(first.lines) == ["cosine of W", "cosine of V"]
    assert second.kept == (40,)
    assert second.lines["loss"][0] is None
    assert {"T=16", "q=4"} <= set(second.lines)
    alone, both = learn_figures.losses(first), learn_figures.losses(second)
    # The first run recorded only cosines: there is no empty panel of losses above them.
    assert alone.figure.layout.yaxis.title.text == "cosine"
    assert "yaxis2" not in alone.figure.layout
    assert [trace.name for trace in alone.figure.data] == ["cosine of W", "cosine of V"]
    W, V = (first.lines[f"cosine of {one}"][-1] for one in "WV")
    assert alone.text == (
        f"claims: Figure 8, 600 steps: no training loss was recorded; the cosines with the ground truth are {W:.3f} "
        f"(W) and {V:.3f} (V) at step 600 of 600."
    )
    assert [both.figure.layout[one].title.text for one in ("yaxis", "yaxis2")] == ["loss", "cosine"]
    assert f"has a loss of {second.lines['loss'][-1]:.3g} at step 40 of 40" in both.text
    looks = [(trace.line.color, trace.line.dash) for trace in both.figure.data]
    assert len(set(looks)) == len(looks) > 4  # no two curves look alike


def test_a_run_with_nothing_to_draw_says_so() -> None:
    bare = TrainingRun("bare", 10, {}, (0, 10), {"loss": (None, None)}, (), lambda step: pytest.fail("no weights"))
    assert bare.drawable == {}
    ended, running = (str(run_panel.status(bare, RunStatus("saved", "", alive=one))) for one in (False, True))
    assert "The run has recorded no losses and no cosines." in ended
    assert "to draw" not in running


def test_a_large_matrix_is_not_drawn() -> None:
    with pytest.raises(SeparatrixError, match="W has 300 rows: up to 200 are drawn"):
        training_runs._drawable(0, np.zeros((300, 300)), np.zeros((3, 300)))


def test_the_supervisor_kills_a_run_that_does_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
    (tmp_path / "stop").touch()
    monkeypatch.setattr(supervisor, "PATIENCE_SECONDS", 0.2)
    assert supervisor.watched(child, tmp_path) == "stopped"
    assert child.wait() == -9


def test_a_supervisor_that_fails_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "training" / NONE
    folder.mkdir(parents=True)
    runs: list[subprocess.Popen[bytes]] = []

    def fails(run: subprocess.Popen[bytes], *_: Path) -> None:
        runs.append(run)
        raise OSError("no space")

    monkeypatch.setattr(supervisor, "watched", fails)
    with (tmp_path / "lock").open("w") as lock, pytest.raises(OSError, match="no space"):
        supervisor.main(folder, lock.fileno(), [*LONG.arguments(), "--store", str(tmp_path)])
    assert [run.returncode for run in runs] == [-9]
    assert not (folder / "end.json").exists()


def test_the_supervisor_needs_no_torch(run) -> None:
    slow = "print(*sorted({'torch', 'numpy', 'dash'} & set(sys.modules)))"
    done = run(f"import sys, separatrix.explorer.learn.supervisor; {slow}")
    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_the_output_of_a_supervisor_is_kept(starter: Starter, tmp_path: Path) -> None:
    name = starter.start(LONG)
    (tmp_path / "training" / name / "end.json" / "in the way").mkdir(parents=True)  # the supervisor fails, not the run
    starter.stop(name)
    wait(lambda: not run_status(tmp_path, name).alive)
    wait(lambda: "IsADirectoryError" in (tmp_path / "training" / name / "output.txt").read_text())


def test_a_run_whose_supervisor_is_killed_stops_and_can_go_on(starter: Starter, tmp_path: Path) -> None:
    name = starter.start(LONG)
    wait(lambda: read_run(tmp_path, name).kept)
    starter.held[name].kill()
    wait(lambda: alive(tmp_path) is None)
    assert (run_status(tmp_path, name).word, run_status(tmp_path, name).resumable) == ("cut off", True)
    before = read_run(tmp_path, name).step[-1]
    starter.go_on(name)
    wait(lambda: read_run(tmp_path, name).step[-1] > before)


def test_a_look_at_the_lock_refuses_no_run(starter: Starter, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "training").mkdir()
    handle = os.open(tmp_path / "training" / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_SH)  # the kind of lock that `alive` takes
    with monkeypatch.context() as impatient:
        impatient.setattr(training_start, "LOCK_TRIES", 20)
        with pytest.raises(SeparatrixError, match="no run is named in it"):
            starter._locked(tmp_path / "training")
    ending = threading.Timer(0.1, os.close, [handle])
    ending.start()
    os.close(starter._locked(tmp_path / "training"))
    ending.join()


def test_a_lock_without_a_holder_is_not_a_run(tmp_path: Path) -> None:
    assert alive(tmp_path) is None
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "lock").write_text(NONE)
    assert alive(tmp_path) is None
    assert os.listdir(tmp_path / "training") == ["lock"]
