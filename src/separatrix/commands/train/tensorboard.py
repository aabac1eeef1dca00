"""The records of a training run as events for TensorBoard.

>>> from separatrix.selection.training import Record
>>> numbers(Record(300, 0.25, 1.0, 0.5, None, {"T=250": 0.5}))
{'loss': 0.25, 'lr': 1.0, 'cosine/W': 0.5, 'validation/T-250': 0.5}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from separatrix.errors import SeparatrixError
from separatrix.selection.training import Record

__all__ = ["board", "numbers", "summary_writer"]


def numbers(record: Record) -> dict[str, float]:
    """Give the numbers of a record that are there, by names that TensorBoard takes as they are."""
    named = {"loss": record.loss, "lr": record.lr, "cosine/W": record.cosine_W, "cosine/V": record.cosine_V}
    named |= {f"validation/{task.replace('=', '-')}": loss for task, loss in record.validation.items()}
    return {name: value for name, value in named.items() if value is not None}


@contextmanager
def board(folder: Path, resumed_at: int | None) -> Iterator[Callable[[Record], None]]:
    """Write the numbers of records as scalars of their steps; TensorBoard hides those after a step that is made again.

    Args:
        folder: where the events go.
        resumed_at: the step that the run goes on from; None for a run that begins.
    """
    # The file's name has the second it was made in; the suffix tells two of one second apart.
    purge, suffix = (None, "") if resumed_at is None else (resumed_at + 1, f".{resumed_at}")
    writer = summary_writer()(logdir=str(folder), purge_step=purge, filename_suffix=suffix)

    def write(record: Record) -> None:
        for name, value in numbers(record).items():
            writer.add_scalar(name, value, record.step)
        writer.flush()

    try:
        yield write
    finally:
        writer.close()


def summary_writer() -> Any:
    """Give the class of tensorboardX that writes events, or the sentence that says what to install."""
    try:
        return import_module("tensorboardX").SummaryWriter
    except ModuleNotFoundError:
        raise SeparatrixError(
            "--tensorboard needs tensorboardX, which is not installed: pip install 'separatrix[tensorboard]'"
        ) from None
