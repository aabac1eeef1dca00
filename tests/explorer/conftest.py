"""The explorer served on the loopback interface for a module's tests, and a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from separatrix.explorer.app import make_app
from separatrix.explorer.learn.training_state import STOP, TRAINING, alive
from separatrix.explorer.server import Endpoint, bound
from tests.report import visits


def end_run(store: Path, seconds: float = 900.0) -> None:
    """End the training run that a test left behind, if any."""
    if name := alive(store):
        (store / TRAINING / name / STOP).touch()
    deadline = time.monotonic() + seconds
    while alive(store):
        assert time.monotonic() < deadline, "a training run does not end"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., str]]:
    """Serve a folder of results, as `separatrix explore` does, until the module's tests end; yield the address."""
    with ExitStack() as ending:

        def start(store: Path, token: str | None = None, **options: Any) -> str:
            server, address = bound(make_app(store, **options), Endpoint("127.0.0.1", 0, token))

            def run() -> None:
                with suppress(OSError):  # closing its sockets ends the server
                    server.run()

            thread = Thread(target=run)
            thread.start()

            def end() -> None:
                server.close()
                thread.join(900)
                assert not thread.is_alive()

            ending.callback(end_run, store)
            ending.callback(end)
            return address

        yield start


@pytest.fixture(scope="module")
def browser(serve: Callable[..., str]) -> Iterator[Any]:
    """Debian's chromium; without it the test is skipped, or fails if a browser is required.

    The browser closes before the server, which waits for open connections.
    """
    yield from visits.launched()
