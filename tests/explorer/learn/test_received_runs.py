"""A folder of training runs from an untrusted source: only checked runs start, and they write only their own files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import SeparatrixError
from separatrix.explorer.learn.run_choices import RunChoices
from separatrix.explorer.learn.training_runs import listed, read_run
from separatrix.explorer.learn.training_start import Starter
from separatrix.explorer.learn.training_state import alive, run_status
from separatrix.lab import Cell
from separatrix.lab.canonical_json import canonical
from separatrix.runs.cells import came_out, name_of, pieces
from tests.explorer.learn.test_runs import LONG, SMALL, close, wait
from tests.lab.helpers import fill


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path / "received")
    yield starter
    close(starter)


def received(starter: Starter, name: str, content: object) -> Path:
    """The folder of a received run, with a file of any content in place of the run's settings."""
    folder = starter.store / "training" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def refused(starter: Starter, name: str) -> None:
    """Nothing is started."""
    assert run_status(starter.store, name).resumable
    with pytest.raises(SeparatrixError):
        starter.go_on(name)
    assert starter.held == {}
    assert alive(starter.store) is None


def test_a_received_command_does_not_run(starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command in the file would import a module from the folder, or overwrite a file."""
    mark, mine = tmp_path / "it ran", tmp_path / "thesis.tex"
    mine.write_text("mine")
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sweep = ["sweep", "grid.toml", "--module", "evil"]
    export = ["store", "export", "--output", str(mine)]
    for number, words in enumerate((sweep, export)):
        name = f"run-{number:012x}"
        received(starter, name, {"arguments": words, "seed": 0, "steps": 100})
        refused(starter, name)
        other = received(starter, RunChoices(**{**asdict(SMALL), "seed": number}).name(), {"arguments": words})
        refused(starter, other.name)
    assert not mark.exists()
    assert mine.read_text() == "mine"


NUMBERS = asdict(SMALL)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "7",
        '"text"',
        "\0",
        "[" * 100_000,
        {},
        {**NUMBERS, "arguments": ["sweep"]},
        {**NUMBERS, "steps": "100"},
        {**NUMBERS, "steps": True},
        {**NUMBERS, "steps": [100]},
        {**NUMBERS, "steps": 10**12},
        {**NUMBERS, "width": 10**9},
        {**NUMBERS, "eta": "1.0 --module evil"},
        {**NUMBERS, "seed": -1},
        {**NUMBERS, "seed": 4},
        json.dumps(NUMBERS).replace("1.0", "NaN"),
        json.dumps(NUMBERS).replace("1.0", "1e400"),
        json.dumps(NUMBERS).replace("100", "9" * 10_000),
    ],
)
def test_a_run_starts_only_from_its_own_numbers(starter: Starter, content: object) -> None:
    name = SMALL.name()
    received(starter, name, content)
    refused(starter, name)
    assert listed(starter.store)[name]
    assert read_run(starter.store, name).step == ()


def test_numbers_out_of_range_start_nothing_under_their_own_name(starter: Starter) -> None:
    huge = RunChoices(**{**NUMBERS, "steps": 10**9})
    received(starter, huge.name(), asdict(huge))
    refused(starter, huge.name())


def test_a_received_run_of_checked_numbers_goes_on(starter: Starter) -> None:
    received(starter, SMALL.name(), NUMBERS)
    starter.go_on(SMALL.name())
    wait(lambda: not run_status(starter.store, SMALL.name()).alive)
    assert run_status(starter.store, SMALL.name()).word == "finished"


@pytest.mark.parametrize("file", ["lock", "run.json", "output.txt", "stop", "end.json"])
def test_a_symlink_is_not_written_through(starter: Starter, tmp_path: Path, file: str) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_text("mine")
    folder = received(starter, SMALL.name(), NUMBERS)
    path = folder.parent / file if file == "lock" else folder / file
    path.unlink(missing_ok=True)
    path.symlink_to(mine)
    try:
        starter.start(SMALL)
        starter.stop(SMALL.name())
    except SeparatrixError:
        pass
    close(starter)
    assert mine.read_text() == "mine"
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "new")
    try:
        starter.start(LONG)
        starter.stop(LONG.name())
    except SeparatrixError:
        pass
    close(starter)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("which", ["training", "run"])
def test_a_folder_that_is_a_symlink_is_not_written_into(starter: Starter, tmp_path: Path, which: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    folder = starter.store / "training" / SMALL.name()
    link = folder if which == "run" else folder.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(other)
    with pytest.raises(SeparatrixError, match="is a symlink"):
        starter.start(SMALL)
    assert list(other.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="makes named pipes")
def test_pipes_do_not_make_the_page_wait(starter: Starter) -> None:
    folder = received(starter, SMALL.name(), NUMBERS)
    (folder / "run.json").unlink()
    for path in (folder / "run.json", folder / "output.txt", folder / "end.json", folder.parent / "lock"):
        os.mkfifo(path)
    assert alive(starter.store) is None
    assert run_status(starter.store, SMALL.name()).word == "cut off"
    assert read_run(starter.store, SMALL.name()).steps == 0
    for act in (starter.go_on, starter.stop, lambda name: starter.start(SMALL)):
        with pytest.raises(SeparatrixError):
            act(SMALL.name())


@pytest.mark.parametrize("end", [[], {}, {"how": []}, {"how": {"finished": 1}}, 7, None])
def test_any_end_can_be_read(starter: Starter, end: Any) -> None:
    folder = received(starter, SMALL.name(), NUMBERS)
    (folder / "end.json").write_text(json.dumps(end))
    assert run_status(starter.store, SMALL.name()).word == "cut off"


def test_rows_that_no_run_wrote_are_not_listed(starter: Starter) -> None:
    """The rows have correct checksums, and the names of our experiments."""
    (sound, *_) = pieces(SMALL.settings(), 100)
    result = canonical(came_out([], None))
    fill(starter.store, [sound], result)
    other = pieces(RunChoices(**{**NUMBERS, "seed": 5}).settings(), 50)
    fill(starter.store, other[:1], '{"records":[{"step":"first"}],"state":null,"step":null}')
    fill(starter.store, other[1:], '{"records":7,"state":[],"step":"last"}')
    for number, parameters in enumerate(
        ({}, {"until": []}, {**sound.arguments, "T": "8"}, {**sound.arguments, "T": -1})
    ):
        forged = Cell(sound.experiment, sound.version, canonical(parameters), number)
        fill(starter.store, [forged, Cell(sound.experiment, 99, sound.parameters, number)], result)
    for experiment in ("selection.heat_maps", "selection.training"):
        cells = [
            Cell(experiment, 1, canonical(parameters), 0) for parameters in ({}, {"steps": "many"}, {"steps": 1e300})
        ]
        fill(starter.store, cells, "{}")
    assert list(listed(starter.store)) == [name_of(SMALL.settings(), 100)]
