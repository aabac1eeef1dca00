"""Libraries that have threads are found as soon as they are loaded, and not looked for again without need."""

from __future__ import annotations

import sys

import pytest

from separatrix.lab import libraries

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how many were loaded")


@on_linux
def test_they_are_not_looked_for_again_without_need() -> None:
    assert libraries.loads() == libraries.loads()
    assert libraries.with_threads() is libraries.with_threads()


def test_one_that_is_loaded_later_is_found(run) -> None:
    code = (
        "from separatrix.lab import libraries\n"
        "kinds = lambda: {one.user_api for one in libraries.with_threads().lib_controllers}\n"
        "before, loads = kinds(), libraries.loads()\n"
        "import numpy\n"
        "print('blas' in before, 'blas' in kinds(), loads is None or libraries.loads() > loads)"
    )
    done = run(code)
    assert (done.stdout, done.stderr) == ("False True True\n", "")


def test_they_are_always_looked_for_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "loads", lambda: None)
    assert libraries.with_threads() is not libraries.with_threads()
    assert libraries.with_threads().info() == libraries.with_threads().info()


@on_linux
def test_another_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert libraries.loads() is None
