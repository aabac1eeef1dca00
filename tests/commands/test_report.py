"""`separatrix report`: where it writes the page, and how it opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.lab import Store
from tests.commands.invoked import invoke


def test_the_command(empty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(seen.append(address)) or len(seen) == 1)
    with Store.create(tmp_path / "r"):
        pass
    address = (tmp_path / "r" / "report.html").as_uri()
    quiet = invoke("report", "--store", tmp_path / "r")
    assert (quiet.exit_code, quiet.stdout, seen) == (0, f"The report: {address}\n", [])
    assert invoke("report", "--store", tmp_path / "r", "--open").exit_code == 0
    assert seen == [address]
    refused = invoke("report", "--store", tmp_path / "r", "--open")
    assert refused.exit_code == 1
    assert "no browser could be started" in refused.stderr
    nothing = invoke("report", "--store", tmp_path / "none")
    assert (nothing.exit_code, "There is no store in" in nothing.stderr) == (2, True)
