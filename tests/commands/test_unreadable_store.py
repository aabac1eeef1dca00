"""``--store`` below a folder that cannot be read: an error message and exit code 2, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.invoked import invoke
from tests.lab.helpers import ROOT

COMMANDS = (
    "store ls",
    "store show 0123",
    "store export",
    "store verify",
    "store gc",
    "store gc --damaged",
    "store copy {new}",
    "claims --place C.2",
    "report",
    "doctor",
    "explore --port 0",
    "sweep {sweep}",
    "reproduce --only kronecker/definition-c.2",
    "train selection --steps 10",
)


@pytest.fixture(params=["below a file", "a name that is too long", "permission denied"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A path at which no store can be created."""
    if request.param == "below a file":
        (tmp_path / "file").touch()
        yield tmp_path / "file" / "results"
    elif request.param == "a name that is too long":
        yield tmp_path / ("x" * 300) / "results"
    else:
        if os.name != "posix":
            pytest.skip("needs POSIX permissions")
        locked = tmp_path / "locked"
        (locked / "results").mkdir(parents=True)
        locked.chmod(0o000)
        user = os.geteuid()
        if user == 0:  # a user whom no permission stops
            os.seteuid(65534)
        try:
            yield locked / "results"
        finally:
            os.seteuid(user)
            locked.chmod(0o700)


@pytest.mark.parametrize("words", COMMANDS)
def test_it_reports_the_error(store: Path, tmp_path: Path, words: str) -> None:
    text = words.format(new=tmp_path / "new", sweep=ROOT / "examples" / "dask_sweep.toml")
    done = invoke(*text.split(), "--store", store)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2, done.output
    assert "choose another" in done.stderr.lower()
