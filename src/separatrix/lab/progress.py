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

from separatrix.lab.wording import duration, many

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
        worked: the cost of the cells that this run finished, by the argument ``cost`` of `driver.run`.
        seconds: how long the run took.
        stopped: whether Ctrl-C ended the run.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    failed_before: int = 0
    deaths: int = 0
    worked: float = 0.0
    seconds: float = 0.0
    stopped: bool = False

    @property
    def passed(self) -> int:
        """The number of cells that need no more work in this run."""
        return self.done + self.failed + self.skipped + self.failed_before

    @property
    def complete(self) -> bool:
        """Whether every cell of the run has a result."""
        return not (self.failed or self.failed_before or self.stopped)


class Progress(Protocol):
    """An object that shows the progress of a run."""

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


@dataclass(frozen=True)
class Work:
    """The approximate cost of a run's cells, in seconds of one worker, and the number of workers."""

    total: float
    workers: int = 1


class Lines:
    """A `Progress` that prints a line at most every ten seconds, and one at the end, for files and pipes."""

    def __init__(self, total: int, stream: TextIO, work: Work | None = None) -> None:
        self.total = total
        self.work = work
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
            self.note(
                f"{tally.passed:,} of {many(self.total, 'cell')}"
                f"{_pace(tally, self.total, now - self.started, self.work)}"
            )

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


BEGINNING_SECONDS = 30.0
"""The weight, in seconds, of the expected rate in the estimate: the first cells alone do not decide it."""


def _pace(tally: Tally, total: int, seconds: float, work: Work | None) -> str:
    """The remaining time, once a cell has finished; the rate, if the costs of cells are unknown; and the failures.

    Costs of cells differ: if they are known, the remaining cost is used instead of the remaining number of cells.
    """
    failed = tally.failed + tally.failed_before
    failures = f", {failed:,} failed" if failed else ""
    if not (ran := tally.done + tally.failed) or seconds <= 0:
        return failures
    if work is None:
        rate = ran / seconds
        return f", {rate:.3g} a second, {duration((total - tally.passed) / rate)} left{failures}"
    speed = (tally.worked + BEGINNING_SECONDS * work.workers) / (seconds + BEGINNING_SECONDS)
    left = max(0.0, work.total - tally.worked) / speed if tally.passed < total else 0.0
    return f", about {duration(left)} left{failures}"


class Bars:
    """A `Progress` that shows a bar with the rate and the time left, for a terminal."""

    def __init__(self, total: int, stream: TextIO, work: Work | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("cells{task.fields[pace]}"))
        self.total = total
        self.work = work
        self.started = time.monotonic()
        self.bars = Progress(*columns, console=Console(file=stream))
        self.task = self.bars.add_task("cells", total=total, pace="")

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, tally: Tally) -> None:
        pace = _pace(tally, self.total, time.monotonic() - self.started, self.work)
        self.bars.update(self.task, completed=tally.passed, pace=pace)

    def note(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)


def on(total: int, stream: TextIO | None = None, work: Work | None = None) -> Bars | Lines:
    """A bar if the stream is a terminal, lines otherwise; the stream is the standard error if it is None."""
    stream = stream or sys.stderr
    return Bars(total, stream, work) if stream.isatty() else Lines(total, stream, work)
