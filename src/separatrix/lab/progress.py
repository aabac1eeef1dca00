"""Shows how far a run is: by a bar on a terminal, by plain lines elsewhere.

>>> import sys
>>> with Lines(200, sys.stdout) as lines:
...     lines.show(Tally(skipped=100))
...     lines.note("a worker died")
100 of 200 cells
a worker died
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Protocol, Self, TextIO

from separatrix.lab.wording import duration

LINE_SECONDS = 10.0


@dataclass
class Tally:
    """The counts of a run.

    Attributes:
        done: the cells that this run finished.
        failed: the cells that failed in this run.
        skipped: the cells that were done before.
        failed_before: the cells that failed before and were not tried again.
        deaths: how often a worker died while it ran a cell.
        seconds: how long the run took.
        stopped: whether Ctrl-C ended the run.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    failed_before: int = 0
    deaths: int = 0
    seconds: float = 0.0
    stopped: bool = False

    @property
    def passed(self) -> int:
        """How many cells need no more work in this run."""
        return self.done + self.failed + self.skipped + self.failed_before

    @property
    def complete(self) -> bool:
        """Whether every cell of the run has a result."""
        return not (self.failed or self.failed_before or self.stopped)


class Progress(Protocol):
    """What shows the progress of a run."""

    def show(self, tally: Tally) -> None:
        """Show the counts so far."""

    def note(self, text: str) -> None:
        """Show a sentence."""


class Silent:
    """A `Progress` that shows nothing, which is the default of `run`."""

    def show(self, tally: Tally) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Lines:
    """A `Progress` that prints a line at most every ten seconds, and one at the end, for files and pipes."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self.total = total
        self.stream = stream
        self.started = time.monotonic()
        self.last = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self.last >= LINE_SECONDS or (tally.passed == self.total and tally.done + tally.failed):
            self.last = now
            self.note(f"{tally.passed:,} of {self.total:,} cells{_pace(tally, self.total, now - self.started)}")

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


def _pace(tally: Tally, total: int, seconds: float) -> str:
    """The rate and the time left, once a cell has been run; and how many failed."""
    failed = tally.failed + tally.failed_before
    told = f", {failed:,} failed" if failed else ""
    if (ran := tally.done + tally.failed) and seconds > 0:
        rate = ran / seconds
        told = f", {rate:.3g} a second, {duration((total - tally.passed) / rate)} left{told}"
    return told


class Bars:
    """A `Progress` that shows a bar with the rate and the time left, for a terminal."""

    def __init__(self, total: int, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("cells{task.fields[pace]}"))
        self.total = total
        self.started = time.monotonic()
        self.bars = Progress(*columns, console=Console(file=stream))
        self.task = self.bars.add_task("cells", total=total, pace="")

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, tally: Tally) -> None:
        pace = _pace(tally, self.total, time.monotonic() - self.started)
        self.bars.update(self.task, completed=tally.passed, pace=pace)

    def note(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)


def on(total: int, stream: TextIO | None = None) -> Bars | Lines:
    """A bar if the stream is a terminal, lines otherwise; the stream is the standard error if it is None."""
    stream = stream or sys.stderr
    return Bars(total, stream) if stream.isatty() else Lines(total, stream)
