from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Iterator

import pytest

import separatrix


@pytest.fixture
def handlers_come_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command installs its SIGINT handler for the process, which is the test process here."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_package_is_the_command(
    handlers_come_back: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["separatrix", "--version"])
    with pytest.raises(SystemExit) as done:
        runpy.run_module("separatrix", run_name="__main__")
    assert done.value.code == 0
    assert capsys.readouterr().out == f"separatrix {separatrix.__version__}\n"
