"""Handling of Ctrl-C, which a terminal sends to every process: note it for later, delay it, or keep it from workers.

Python raises `KeyboardInterrupt` between any two instructions of the main thread: also right after a transaction began,
before the code that would end it, or inside a library that holds a lock. A run therefore notes Ctrl-C and checks for it
where it is safe to stop; only the experiment of a cell that runs in this process is interrupted at once.

An exception that is raised during an import may be swallowed there, or be turned into another error. While a command
imports modules, or before it has begun, there is nothing to clean up: Ctrl-C then ends the process at once.
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
"""The exit code of a command that Ctrl-C ended: 128 plus the number of SIGINT, as in shells."""


class OfCommand:
    """A handler of SIGINT for a command: it raises `KeyboardInterrupt` in the command's body, and otherwise ends the
    process at once."""

    def __init__(self) -> None:
        self.in_body = False
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.in_body or _importing(frame):
            self.end()
        self.came = True
        raise KeyboardInterrupt

    def end(self) -> None:
        """Print a message and end the process."""
        shows_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides the cursor
        os.write(2, shows_cursor + b"Stopped. Finished work is saved.\n")
        os._exit(INTERRUPTED)

    def swallowed(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Replace `sys.unraisablehook`, which Python calls with exceptions that it cannot raise."""
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
    """Make Ctrl-C end this process with a message from now on, unless SIGINT already has another handler."""
    if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handler = OfCommand()
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = handler.swallowed
        # Functions that are registered first are called last: then the command is over, and nothing can be interrupted.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextmanager
def body() -> Iterator[None]:
    """The block of a command's own work, which an exception can interrupt."""
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
    """Whether Ctrl-C was pressed in the body of a command, even if the exception was swallowed there."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, OfCommand) and handler.came


class Noted:
    """A handler that records that SIGINT was received."""

    def __init__(self) -> None:
        self.came = False
        self.cuts_short = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self.cuts_short:
            self.cuts_short = False  # only once: a second signal must not interrupt the cleaning up after the first
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self.came:
            raise KeyboardInterrupt


@contextmanager
def noted() -> Iterator[Noted]:
    """Note Ctrl-C during the block instead of raising `KeyboardInterrupt`.

    Python handles signals in the main thread only, so in another thread nothing changes. Nothing changes either if
    SIGINT has a handler that is neither Python's own nor a command's, or is ignored, as under ``nohup``.
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
    """Inside `noted`, a block that Ctrl-C interrupts immediately, even if it was pressed before the block."""
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
def kept_from_children() -> Iterator[None]:
    """Make the processes that are started in the block ignore Ctrl-C from the beginning.

    A process inherits the blocked signals of the thread that starts it, and so does a thread.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker  # slow to import, and not needed by every command

    resource_tracker.ensure_running()  # if it were started with the first child, it would unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
