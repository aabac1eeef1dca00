"""The training loop, as a generator of records: `advance` with any update rule, `train` with Adam.

The caller passes functions for the data, the loss and the records. To stop a run early, stop iterating.

Example:
    >>> x, noise = torch.tensor([4.0], requires_grad=True), generator_for(0, 0)
    >>> records = train([x], lambda: torch.randn(8, generator=noise), lambda batch: ((x - batch) ** 2).mean(),
    ...                 lambda step: (step, abs(x.item()) < 1), steps=40, recorded=every(20, 40), lr=0.25)
    >>> list(records)
    [(0, False), (20, True), (40, True)]
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from separatrix.errors import SeparatrixError

__all__ = ["advance", "every", "generator_for", "train"]

Batch = TypeVar("Batch")
Record = TypeVar("Record")


def advance(
    update: Callable[[int], Record | None],
    records: Callable[[int], Iterable[Record]],
    *,
    start: int = 0,
    steps: int,
    recorded: Container[int],
) -> Iterator[Record]:
    """Update a run step by step and yield its records.

    Args:
        update: Performs the update with this index, from 0. If the run must stop, it returns the last record.
        records: Returns the records of the run after this many updates.
        start: The number of updates already made.
        steps: The total number of updates.
        recorded: The numbers of updates after which there are records; 0 is before the first.
    """
    for step in range(start, steps + 1):
        if step in recorded:
            yield from records(step)
        if step < steps and (last := update(step)) is not None:
            yield last
            return


def train(
    parameters: Iterable[Tensor],
    draw: Callable[[], Batch],
    loss: Callable[[Batch], Tensor],
    record: Callable[[int], Record],
    *,
    steps: int,
    recorded: Container[int],
    lr: float | Callable[[int], float],
    fused: bool = False,
    stopped: Callable[[int, SeparatrixError], Record] | None = None,
) -> Iterator[Record]:
    """Train by Adam and yield the records of the run.

    Args:
        parameters: The tensors that are trained, in place.
        draw: Returns a fresh batch; it is called once for each update.
        loss: Returns the loss of a batch, a scalar.
        record: Returns the record of the run after this many updates.
        steps: The number of updates.
        recorded: The numbers of updates after which there is a record; 0 is before the first.
        lr: The learning rate, or a function from the index of an update to its learning rate.
        fused: Whether Adam runs as one fused kernel, which is faster for many small tensors and rounds differently.
        stopped: Returns the last record of a run that ends because `loss` raised a `SeparatrixError`, from the number
            of updates and the error; None to propagate the error.
    """
    optimiser = torch.optim.Adam(parameters, lr=0.0, fused=fused)

    def update(step: int) -> Record | None:
        batch = draw()
        try:
            value = loss(batch)
        except SeparatrixError as error:
            if stopped is None:
                raise
            return stopped(step, error)
        optimiser.param_groups[0]["lr"] = lr(step) if callable(lr) else lr
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        return None

    return advance(update, lambda step: [record(step)], steps=steps, recorded=recorded)


def every(count: int, steps: int) -> frozenset[int]:
    """The multiples of `count` up to `steps`, and `steps` itself.

    Example:
        >>> sorted(every(4, 10))
        [0, 4, 8, 10]
    """
    return frozenset([*range(0, steps + 1, count), steps])


def generator_for(seed: int, purpose: int) -> torch.Generator:
    """Return the random generator for one purpose of a run, such as its data; purposes and seeds have separate streams.

    Example:
        >>> generator_for(0, 1).initial_seed() != generator_for(1, 0).initial_seed()
        True
    """
    state = np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
