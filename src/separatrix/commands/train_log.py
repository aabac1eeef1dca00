"""What a training run leaves: a file of JSON lines that grows with it, and, if asked for, events for TensorBoard.

The first line holds the settings, every other line a record. A run that was stopped goes on from its checkpoint, and
makes again the records after it: those are cut off first, with a line that was half written when the run was killed.

>>> from separatrix.selection import TrainingSettings, train
>>> run = TrainingSettings(T=8, q=2, d=1, width=16, threshold=0.9, steps=100, validation_T=(), validation_q=())
>>> line(list(train(run))[0])
'{"cosine_V":null,"cosine_W":null,"loss":null,"lr":1.0,"step":0,"stopped":null,"validation":{}}'
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, TextIO

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.files import Held, hold, write_whole
from separatrix.lab import plain
from separatrix.lab.interrupts import held_back
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.training import Record

__all__ = ["Events", "JsonLines", "Log", "alone", "board", "json_lines", "line", "numbers"]


class Log(Protocol):
    """Something that keeps records."""

    def keep(self, record: Record, *, lasting: bool) -> None: ...


def line(record: Record) -> str:
    """A record without its weights, as one line of canonical JSON."""
    fields = ("step", "loss", "lr", "cosine_W", "cosine_V", "validation", "stopped")
    return plain.canonical({name: getattr(record, name) for name in fields})


def numbers(record: Record) -> dict[str, float]:
    """The numbers of a record that are there, by names that TensorBoard takes as they are."""
    named = {"loss": record.loss, "lr": record.lr, "cosine/W": record.cosine_W, "cosine/V": record.cosine_V}
    named |= {f"validation/{task.replace('=', '-')}": loss for task, loss in record.validation.items()}
    return {name: value for name, value in named.items() if value is not None}


class JsonLines:
    """The file of a run, open for the records to come."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def keep(self, record: Record, *, lasting: bool) -> None:
        """Write a record; `lasting` also waits for the disk, so that no checkpoint is on it ahead of its records."""
        with held_back():
            self._file.write(line(record) + "\n")
            self._file.flush()
            if lasting:
                os.fsync(self._file.fileno())


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, which the system lets go when the process ends in any way; two at once are refused."""
    try:
        lock = hold(path)
    except Held:
        raise SeparatrixError(
            f"Another command trains this run: it holds {path}. Wait for it, or choose another --folder."
        ) from None
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def json_lines(path: Path, settings: TrainingSettings, resumed_at: int | None) -> Iterator[JsonLines]:
    """The file at `path`, with the records up to the step `resumed_at` that it had, or none for a new run."""
    head = plain.canonical({"settings": json.loads(settings.to_json())})
    records = _kept(path, head, settings, resumed_at)
    write_whole(path, "".join(f"{text}\n" for text in [head, *records]).encode())
    with path.open("a", encoding="utf-8") as file:
        yield JsonLines(file)


def _kept(path: Path, head: str, settings: TrainingSettings, resumed_at: int | None) -> list[str]:
    if not path.exists() and resumed_at is None:
        return []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    if lines and lines[0] != head.encode():
        raise ArgumentError("--folder", expected="a folder of the same settings, or a new one", got=f"{path} of others")
    if resumed_at is None:
        return []
    steps = list(takewhile(lambda step: step is not None and step <= resumed_at, map(_step, lines[1:])))
    due = resumed_at if resumed_at == settings.steps else resumed_at - resumed_at % settings.validate_every
    if not steps or steps[-1] != due:
        raise SeparatrixError(
            f"{path} has no record of step {due}, and its checkpoint stands at step {resumed_at}: bring the file back, "
            "or remove the checkpoint beside it to start again."
        )
    return [text.decode() for text in lines[1 : 1 + len(steps)]]


def _step(record: bytes) -> int | None:
    """The step of a record; None for a line that is none, such as one that a power cut left half written."""
    try:
        step = plain.read(record.decode())["step"]
    except (ValueError, KeyError, TypeError):
        return None
    return step if type(step) is int else None


class Events:
    """Records as events for TensorBoard."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def keep(self, record: Record, *, lasting: bool) -> None:
        """Write every number of a record as a scalar of its step."""
        for name, value in numbers(record).items():
            self._writer.add_scalar(name, value, record.step)
        if lasting:
            self._writer.flush()


@contextmanager
def board(folder: Path, resumed_at: int | None) -> Iterator[Sequence[Log]]:
    """A writer of events in `folder`; TensorBoard hides the events after the step where the run goes on."""
    # The file's name has the second it was made in; the suffix tells two of one second apart.
    purge, suffix = (None, "") if resumed_at is None else (resumed_at + 1, f".{resumed_at}")
    writer = summary_writer()(logdir=str(folder), purge_step=purge, filename_suffix=suffix)
    try:
        yield [Events(writer)]
    finally:
        writer.close()


def summary_writer() -> Any:
    """The class of tensorboardX that writes events, or the sentence that says what to install."""
    try:
        return import_module("tensorboardX").SummaryWriter
    except ModuleNotFoundError:
        raise SeparatrixError(
            "--tensorboard needs tensorboardX, which is not installed: pip install 'separatrix[tensorboard]'"
        ) from None
