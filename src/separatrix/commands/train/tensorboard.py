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


def numbers(record: Record) -> dict[str, float]:
    """The values of a record by names that TensorBoard accepts; missing values are omitted."""
    named = {"loss": record.loss, "lr": record.lr, "cosine/W": record.cosine_W, "cosine/V": record.cosine_V}
    named |= {f"validation/{task.replace('=', '-')}": loss for task, loss in record.validation.items()}
    return {name: value for name, value in named.items() if value is not None}


@contextmanager
def board(folder: Path, resumed_at: int | None) -> Iterator[Callable[[Record], None]]:
    """Writes the values of records as scalars; TensorBoard hides earlier events of steps that are repeated.

    Args:
        folder: where the events go.
        resumed_at: the step from which the run is resumed; None for a new run.
    """
    # File names have a resolution of a second; the suffix distinguishes files of the same second.
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
    """Return the event writer class of tensorboardX, or exit with a message that says what to install."""
    try:
        return import_module("tensorboardX").SummaryWriter
    except ModuleNotFoundError:
        raise SeparatrixError(
            "--tensorboard needs tensorboardX, which is not installed: pip install 'separatrix[tensorboard]'"
        ) from None
