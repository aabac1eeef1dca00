"""`separatrix train selection`: its output, resuming after an interruption, and its error messages."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from separatrix.commands.app import app
from separatrix.commands.train import selection as train_command
from separatrix.commands.train.display import TrainingBars, TrainingLines, record_line
from separatrix.commands.train.tensorboard import numbers
from separatrix.errors import ArgumentError
from separatrix.lab import Store
from separatrix.lab.arrays import named_in, place
from separatrix.lab.lease import Lease
from separatrix.runs.cells import came_out, pieces
from separatrix.runs.read import StoredRun, stored_runs
from separatrix.selection.settings import TrainingSettings, paper_settings
from separatrix.selection.training import Record, resumable, train
from tests.lab.helpers import contents

SMALL = {
    "--T": "9", "--q": "2", "--d": "2", "--d-e": "14", "--threshold": "0.6", "--batch": "6", "--steps": "75",
    "--validate-every": "10", "--lr": "0.8", "--checkpoint-every": "20",
}  # fmt: skip
SETTINGS = TrainingSettings(
    T=9,
    q=2,
    d=2,
    width=14,
    threshold=0.6,
    lr=((0, 0.8),),
    batch=6,
    steps=75,
    validate_every=10,
    validation_T=(11, 14, 16, 18),
    validation_q=(4, 5, 6, 7),
)


def ran(folder: Path, *more: str, **other: str) -> Result:
    options = {**SMALL, **{f"--{name.replace('_', '-')}": value for name, value in other.items()}}
    words = [word for option in options.items() for word in option]
    return CliRunner().invoke(app, ["train", "selection", "--store", str(folder), *words, *more])


def runs(folder: Path) -> list[StoredRun]:
    with Store.open(folder) as store:
        return list(stored_runs(store))


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of the one run that a store has."""
    [run] = runs(folder)
    return run.records()


def expected_records(settings: TrainingSettings = SETTINGS) -> list[dict[str, Any]]:
    return came_out(train(settings), None)["records"]


class _Interrupted:
    """A training that Ctrl-C interrupts after its n-th record."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *values: Any, **named: Any) -> Any:
        with closing(resumable(*values, **named)) as run:
            for made in run:
                if isinstance(made, Record):
                    if not self.left:
                        raise KeyboardInterrupt
                    self.left -= 1
                yield made


def test_the_records_are_those_of_the_run(tmp_path: Path) -> None:
    done = ran(tmp_path)
    assert done.exit_code == 0, done.output
    [run] = runs(tmp_path)
    assert run.settings == SETTINGS
    assert run.records() == expected_records()
    assert sorted(run.kept()) == [20, 40, 60, 75]
    assert "seed 0: loss" in done.stdout
    assert "step 75 of 75" in done.stderr
    assert "T=18" in done.stderr
    assert "cosines W" in done.stderr


@pytest.mark.parametrize("stopped_at", [1, 4, 7])
@pytest.mark.parametrize("every", ["20", "13", "75"])
def test_a_stopped_run_says_how_to_resume_and_is_resumed(
    tmp_path: Path, stopped_at: int, every: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("separatrix.selection.training.resumable", _Interrupted(stopped_at))
        patch.setattr("sys.argv", ["separatrix", "train", "selection", "--T", "9"])
        stopped = ran(tmp_path / "stopped", checkpoint_every=every)
    assert stopped.exit_code == 130
    assert "run the same command again: separatrix train selection --T 9" in stopped.stderr
    resumes = int(every) < 10 * stopped_at
    assert len(runs(tmp_path / "stopped")) == resumes
    again = ran(tmp_path / "stopped", checkpoint_every=every)
    assert again.exit_code == 0, again.output
    assert ("resumed from step" in again.stderr) == resumes
    ran(tmp_path / "unbroken", checkpoint_every=every)
    assert records(tmp_path / "stopped") == expected_records()
    assert contents(tmp_path / "stopped") == contents(tmp_path / "unbroken")


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    ran(tmp_path)
    before = contents(tmp_path)
    again = ran(tmp_path)
    assert again.exit_code == 0
    assert "all 75 steps were done before" in again.stdout
    assert contents(tmp_path) == before


def test_seeds_are_runs_of_their_own(tmp_path: Path) -> None:
    done = ran(tmp_path, seeds="3", seed="4", steps="20")
    assert done.exit_code == 0, done.output
    all_runs = runs(tmp_path)
    assert [run.settings.seed for run in all_runs] == [4, 5, 6]
    assert len({run.records()[-1]["loss"] for run in all_runs}) == len({run.name for run in all_runs}) == 3


def test_runs_with_other_settings_share_a_store(tmp_path: Path) -> None:
    ran(tmp_path)
    assert ran(tmp_path, batch="7").exit_code == 0
    assert [run.settings.batch for run in runs(tmp_path)] == [6, 7]


def test_divergence_is_reported_and_everything_kept(tmp_path: Path) -> None:
    for _ in range(2):  # the second time from the stored state
        done = ran(tmp_path, "--lr", "25:1e30", init="random", std="1.0", seeds="2")
        assert done.exit_code == 1
        assert done.stdout.count("The run diverged: the batch loss at step") == 2
    for run in runs(tmp_path):
        records = run.records()
        assert [record["step"] for record in records[:3]] == [0, 10, 20]
        assert "diverged" in records[-1]["stopped"]
        assert all(record["stopped"] is None for record in records[:-1])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_two_commands_do_not_train_one_run(tmp_path: Path) -> None:
    first = pieces(SETTINGS, 20)[0]
    with Store.create(tmp_path) as store, Lease(store) as lease:
        lease.take([(first.key, first)], failed_too=True)
        second = ran(tmp_path)
        assert second.exit_code == 2
        assert "Another command is training this run" in second.stderr
    assert ran(tmp_path).exit_code == 0


def test_a_damaged_part_is_trained_again(tmp_path: Path) -> None:
    ran(tmp_path)
    before = contents(tmp_path)
    with Store.open(tmp_path) as store:
        record = store.record(pieces(SETTINGS, 20)[1].key)
        digest = next(iter(named_in(record.result or "")))
    place(tmp_path / "arrays", digest).write_bytes(b"junk")
    again = ran(tmp_path)
    assert again.exit_code == 0
    assert "resumed from step 20" in again.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"q": "0"}, "q: expected an integer"),
        ({"threshold": "0.01"}, "threshold: expected"),
        ({"lr": "fast"}, "--lr: expected a RATE or STEP:RATE"),
        ({"lr": "5:1"}, "lr: expected (step, rate) pairs"),
        ({"seeds": "0"}, "--seeds: expected"),
        ({"checkpoint_every": "0"}, "--checkpoint-every: expected"),
    ],
)
def test_invalid_input_is_reported_in_a_sentence(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    done = ran(tmp_path / "new", **options)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert not (tmp_path / "new").exists()


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = ran(tmp_path / "file")
    assert done.exit_code == 2
    assert "cannot be opened" in done.stderr


def test_omitted_options_are_the_papers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command's own defaults, with each optimiser, are the settings of the paper's runs."""
    asked: list[TrainingSettings] = []
    monkeypatch.setattr(train_command, "_train", lambda settings, *_: asked.append(settings) or "done")
    for optimiser in ("sgd", "adam"):
        words = ["train", "selection", "--optimiser", optimiser, "--encoding", "fixed", "--init", "random"]
        assert CliRunner().invoke(app, [*words, "--store", str(tmp_path)]).exit_code == 0
    assert asked == [paper_settings("fixed", optimiser, "random") for optimiser in ("sgd", "adam")]


def test_rates() -> None:
    assert train_command.rates(["0:1", "10:0.5"]) == ((0, 1.0), (10, 0.5))
    with pytest.raises(ArgumentError, match=r"--lr: expected .* got '1:2:3'"):
        train_command.rates(["1:2:3"])


def events(folder: Path) -> list[tuple[str, int, float]]:
    """The scalars of the event files in a folder, read from the record format itself: length, check, event, check."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    seen = []
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = proto.Event.FromString(data[at + 12 : at + 12 + size])
            seen += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            seen += [("restart", event.step, 0.0)] if event.HasField("session_log") else []
            at += 16 + size
    return seen


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX")
    board = tmp_path / "board"
    with monkeypatch.context() as patch:
        patch.setattr("separatrix.selection.training.resumable", _Interrupted(5))
        assert ran(tmp_path, tensorboard=str(board)).exit_code == 130
    assert ran(tmp_path, tensorboard=str(board)).exit_code == 0
    recorded_events = events(board / "seed-0")
    restart = recorded_events.index(("restart", 41, 0.0))
    lasting = [one for one in recorded_events[:restart] if one[1] < 41] + recorded_events[restart + 1 :]
    wanted = []
    for record in train(SETTINGS):
        wanted += [(name, record.step, value) for name, value in numbers(record).items()]
    assert [one[:2] for one in lasting] == [one[:2] for one in wanted]
    assert [one[2] for one in lasting] == pytest.approx([one[2] for one in wanted], rel=1e-6)


def test_without_tensorboardx_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    done = ran(tmp_path / "new", tensorboard=str(tmp_path / "board"))
    assert done.exit_code == 2
    assert "pip install 'separatrix[tensorboard]'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_help_does_not_import_torch(run: Any) -> None:
    end = "atexit.register(lambda: print(*sorted({'torch', 'numpy'} & set(sys.modules)), sep=',', file=sys.stderr))"
    done = run(
        f"import atexit, sys; {end}; from separatrix.commands.main import main; main()", "train", "selection", "--help"
    )
    assert done.stderr == "\n"
    for option in ("--T", "--d-e", "--tensorboard", "--seeds", "--threshold"):
        assert option in done.stdout


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_the_numbers() -> None:
    stream = _Terminal()
    record = Record(50, 0.25, 1.0, 0.5, None, {"T=11": 0.5})
    with TrainingBars(stream) as bars:
        bars.begin("seed-0", 75, 0)
        bars.show(record)
    text = stream.getvalue().replace("\N{NO-BREAK SPACE}", " ")
    for part in ("seed-0", "50/75", "loss 0.25", "cosines W 0.5000", "T=11 0.5"):
        assert part in text
    assert " V " not in record_line(record)


def test_a_pipe_gets_lines_now_and_then() -> None:
    stream = io.StringIO()
    with TrainingLines(stream) as lines:
        lines.begin("seed-0", 75, 20)
        for step in (30, 40, 50, 75):
            lines.show(Record(step, 0.25, 1.0, 0.5, 0.5, {}))
    assert [text.partition("   ")[0] for text in stream.getvalue().splitlines()] == [
        "seed-0: resumed from step 20",
        "seed-0: step 30 of 75",
        "seed-0: step 75 of 75",
    ]


def test_files_of_a_run_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert ran(tmp_path / "new" / "runs").exit_code == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert {"store.sqlite", "arrays"} <= set(modes)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_run_killed_fifty_times_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    """The run is killed at random moments, also during the start, but only after it has written another record:
    otherwise it would never end.
    """
    moments, options = random.Random(0), {**SMALL, "--d-e": "64", "--steps": "8000", "--lr": "0.1"}
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "separatrix", "train", "selection", *words, "--store"]
    killed = tmp_path / "killed"
    Store.create(killed).close()

    def done() -> int:
        return sum(len(run.done) for run in runs(killed))

    for _ in range(50):
        before = done()
        run = subprocess.Popen([*command, str(killed)], stderr=subprocess.DEVNULL)
        while done() <= before:
            assert run.poll() is None, "the run ended before it was killed"
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.05))
        run.kill()
        run.wait()
    for folder in (killed, tmp_path / "unbroken"):
        subprocess.run([*command, str(folder)], check=True, capture_output=True)
    assert contents(killed) == contents(tmp_path / "unbroken")
