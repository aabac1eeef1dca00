"""The progress of training runs: a bar with the latest record on a terminal, otherwise a line now and then.

>>> from separatrix.selection.training import Record
>>> record_line(Record(300, 0.25, 1.0, 0.5, 0.75, {"T=250": 0.5, "q=5": 0.125}))
'loss 0.25   cosines W 0.5000 V 0.7500   T=250 0.5   q=5 0.125'
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self, TextIO

from separatrix.lab.progress import LINE_SECONDS
from separatrix.selection.training import Record


class Display(Protocol):
    """Shows the progress of runs, one after the other."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, name: str, steps: int, step: int) -> None: ...

    def show(self, record: Record) -> None: ...


def record_line(record: Record) -> str:
    """The values of a record as one line; missing values are omitted."""
    parts = [] if record.loss is None else [f"loss {record.loss:.4g}"]
    cosines = {"W": record.cosine_W, "V": record.cosine_V}
    if known := [f"{name} {value:.4f}" for name, value in cosines.items() if value is not None]:
        parts.append(f"cosines {' '.join(known)}")
    parts += [f"{task} {loss:.4g}" for task, loss in record.validation.items()]
    return "   ".join(parts)


class TrainingLines:
    """Prints a line now and then, for files and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, name: str, steps: int, step: int) -> None:
        self._name, self._steps, self._last = name, steps, float("-inf")
        if step:
            print(f"{name}: resumed from step {step:,}", file=self._stream, flush=True)

    def show(self, record: Record) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_SECONDS or record.step == self._steps:
            self._last = now
            text = f"{self._name}: step {record.step:,} of {self._steps:,}   {record_line(record)}"
            print(text.rstrip(), file=self._stream, flush=True)


class TrainingBars:
    """A progress bar for each run, and below them the latest record of the current run."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.text import Text

        console = Console(file=stream)
        left = TextColumn("steps,"), TimeRemainingColumn(), TextColumn("left")
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *left
        self._bars = Progress(*columns, console=console, auto_refresh=False)
        self._numbers = Text()
        self._live = Live(Group(self._bars, self._numbers), console=console, refresh_per_second=5)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, name: str, steps: int, step: int) -> None:
        self._task = self._bars.add_task(name, total=steps, completed=step)

    def show(self, record: Record) -> None:
        self._bars.update(self._task, completed=record.step)
        # The line is not broken between a name and its number.
        parts = record_line(record).split("   ")
        self._numbers.plain = "   ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)


def display() -> Display:
    """Progress bars if the standard error is a terminal, and lines otherwise."""
    return TrainingBars(sys.stderr) if sys.stderr.isatty() else TrainingLines(sys.stderr)
