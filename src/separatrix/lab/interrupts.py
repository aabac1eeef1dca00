"""Ctrl-C, which a terminal sends to every process of a command: held back for a moment, or kept from workers."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def held_back() -> Iterator[None]:
    """Let a Ctrl-C that comes during the block take effect right after it.

    Python gives signals to the main thread only; in another one there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if came and callable(before):
            before(signal.SIGINT, None)


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Have the processes that are started in the block deaf to Ctrl-C from their first moment on.

    A process inherits the signals that the thread which starts it has blocked, and a thread those of its own starter.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which would unblock them, were it first started with a child
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
