from __future__ import annotations

import runpy
import sys

import pytest

import separatrix


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["separatrix", "--version"])
    with pytest.raises(SystemExit) as done:
        runpy.run_module("separatrix", run_name="__main__")
    assert done.value.code == 0
    assert capsys.readouterr().out == f"separatrix {separatrix.__version__}\n"
