"""Ctrl-C, which a terminal sends to every process of a command: noted for later, held back, or kept from workers.

Python raises `KeyboardInterrupt` between any two instructions of the main thread: also after a transaction began and
before anyone would end it, or inside a library that holds a lock. A run therefore notes Ctrl-C and looks for it where
it is safe to stop; only the experiment of a cell that runs in this process is cut short.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType


class Noted:
    """A handler of SIGINT that remembers that it came."""

    def __init__(self) -> None:
        self.came = False
        self.cuts_short = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self.cuts_short:
            self.cuts_short = False  # once: a second one must not strike what clears up after the first
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C has come."""
        if self.came:
            raise KeyboardInterrupt


@contextmanager
def noted() -> Iterator[Noted]:
    """Have Ctrl-C noted during the block, not raised.

    Python gives signals to the main thread only, so in another one nothing comes. A handler that is not Python's own,
    or a SIGINT that is ignored, as under `nohup`, is somebody's choice and stays.
    """
    handler = Noted()
    ours = _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield handler
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def cut_short() -> Iterator[None]:
    """Let a Ctrl-C that is noted, or comes during the block, end the block at once, inside `noted`."""
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, Noted) or not _in_main_thread():
        yield
        return
    try:
        handler.cuts_short = True
        handler.check()
        yield
    finally:
        handler.cuts_short = False


@contextmanager
def held_back() -> Iterator[None]:
    """Let a Ctrl-C that comes during the block take effect right after it."""
    if not _in_main_thread():
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


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
