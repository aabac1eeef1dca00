"""`separatrix explore`: access control and messages."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from separatrix.commands.app import app as command_line
from separatrix.commands.explore import PORT
from separatrix.explorer.server import Endpoint


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> list[Endpoint]:
    """The endpoint of the command; nothing is served."""
    found: list[Endpoint] = []

    def stand_in(app, endpoint: Endpoint):
        found.append(endpoint)
        return SimpleNamespace(run=lambda: None, close=lambda: None), f"http://there/?token={endpoint.token}"

    monkeypatch.setattr("separatrix.explorer.server.bound", stand_in)
    monkeypatch.setattr("separatrix.explorer.app.make_app", lambda store: store)
    return found


def explore(*options: object):
    return CliRunner().invoke(command_line, ["explore", *map(str, options)])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_the_command_makes_a_token_and_prints_a_link_that_carries_it(endpoints: list[Endpoint], host: str) -> None:
    """A token is needed on a local address, too: other users of the machine and their programs can reach the port."""
    for _ in range(2):
        done = explore("--host", host)
        assert done.exit_code == 0
        assert f"The explorer: http://there/?token={endpoints[-1].token}\n" in done.output
        assert "open the whole address" in done.output
    assert (endpoints[0].host, endpoints[0].port) == (host, PORT)
    assert endpoints[0].token
    assert len(endpoints[0].token) >= 24
    assert endpoints[0].token != endpoints[1].token
    explore("--host", host, "--token", "correct-horse-battery")
    assert endpoints[2].token == "correct-horse-battery"


def test_the_token_is_switched_off_by_name_and_on_this_machine_alone(endpoints: list[Endpoint]) -> None:
    done = explore("--no-token")
    assert done.exit_code == 0
    assert endpoints[0] == Endpoint("127.0.0.1", PORT, None)
    assert "open the whole address" not in done.output
    for options, why in (
        (["--no-token", "--host", "0.0.0.0"], "--no-token: expected a --host that only this machine can reach"),
        (["--no-token", "--token", "correct-horse-battery"], "--no-token: expected no --token beside it"),
        (["--token", "short"], "--token: expected at least 16 characters"),
    ):
        done = explore(*options)
        assert done.exit_code == 2
        assert why in done.output
    assert len(endpoints) == 1


def test_the_browser_is_not_given_the_token_where_others_see_it(
    endpoints: list[Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user can read the arguments of a process: the browser gets a file that only its owner can read."""
    opened: list[tuple[str, str, int]] = []

    def look(link: str) -> bool:
        file = Path(link.removeprefix("file://"))
        opened.append((link, file.read_text("utf-8"), stat.S_IMODE(file.parent.stat().st_mode)))
        return True

    monkeypatch.setattr("webbrowser.open", look)
    assert explore("--open").exit_code == 0
    [(link, text, mode)] = opened
    assert endpoints[0].token
    assert endpoints[0].token not in link
    assert f"url=http://there/?token={endpoints[0].token}" in text
    assert mode == 0o700
    assert not Path(link.removeprefix("file://")).exists()


@pytest.mark.parametrize("name", ["dash", "waitress"])
def test_a_missing_extra_is_a_sentence(run, name: str) -> None:
    hide = f"import sys; sys.modules['{name}'] = None; from separatrix.commands.main import main; main()"
    done = run(hide, "explore")
    assert done.returncode == 2
    assert f"explore needs {name}, which is not installed: pip install 'separatrix[explore]'" in done.stderr
    assert "Traceback" not in done.stderr
