"""Ctrl-C, which a terminal sends to every process of a command: noted for later, held back, or kept from workers.

Python raises `KeyboardInterrupt` between any two instructions of the main thread: also after a transaction began and
before anyone would end it, or inside a library that holds a lock. A run therefore notes Ctrl-C and looks for it where
it is safe to stop; only the experiment of a cell that runs in this process is cut short.

What is raised into an import may be swallowed there, or come out as another error. While a command imports, or has not
begun, there is nothing to be put in order: Ctrl-C then ends the process at once.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The status of a command that Ctrl-C ended: 128 and the number of SIGINT, as shells have it."""


class OfCommand:
    """A handler of SIGINT for a command: raises `KeyboardInterrupt` where its body runs, and elsewhere ends at once."""

    def __init__(self) -> None:
        self.in_body = False
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.in_body or _importing(frame):
            self.end()
        self.came = True
        raise KeyboardInterrupt

    def end(self) -> None:
        """End the process with a sentence."""
        shows_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # which a bar hides
        os.write(2, shows_cursor + b"Stopped. What is done is kept.\n")
        os._exit(INTERRUPTED)

    def swallowed(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Take the place of `sys.unraisablehook`, to which Python gives what it can raise nowhere."""
        if unraisable.exc_type is KeyboardInterrupt:
            self.end()
        sys.__unraisablehook__(unraisable)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def of_command() -> None:
    """Have Ctrl-C end this process in a sentence from now on, unless SIGINT is somebody else's affair."""
    if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handler = OfCommand()
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = handler.swallowed
        # The last of what Python does at its end; then the command is over, and nothing is left to be stopped.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextmanager
def body() -> Iterator[None]:
    """Where a command is at its own work, and can be interrupted by an exception."""
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, OfCommand):
        yield
        return
    handler.in_body = True
    try:
        yield
    finally:
        handler.in_body = False


def interrupted() -> bool:
    """Whether Ctrl-C was pressed in the body of a command, whatever became of it there."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, OfCommand) and handler.came


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

    Python gives signals to the main thread only, so in another one nothing comes. A handler that is neither Python's
    own nor a command's, or a SIGINT that is ignored, as under `nohup`, is somebody's choice and stays.
    """
    handler, before = Noted(), signal.getsignal(signal.SIGINT)
    ours = _in_main_thread() and (before is signal.default_int_handler or isinstance(before, OfCommand))
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield handler
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


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
    from multiprocessing import resource_tracker  # slow to import, and not needed by every command

    resource_tracker.ensure_running()  # which would unblock them, were it first started with a child
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
