"""Training the selection transformer as the paper does: a generator of records, resumable, as fast as two cores allow.

    >>> from separatrix.selection.settings import TrainingSettings
    >>> run = TrainingSettings(T=12, q=2, d=2, width=16, threshold=0.8, batch=8, steps=200, validation_T=(16,),
    ...                        validation_q=(3,))
    >>> [record.step for record in train(run)]
    [0, 100, 200]

The step is `separatrix.selection.gradient`; the data come from `separatrix.selection.stream`, where two threads prepare
them in advance. Between records torch runs on one thread, so that the data threads have the other core and the rounding
of sums does not vary; when the caller receives a record, torch's number of threads is restored.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.checkpoint import Checkpoint, generator_from
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.gradient import batch_gradient
from separatrix.selection.optimisers import adam_state, adam_update, sgd_update
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.stream import Blocks, derived_generator, one_thread, query_tokens
from separatrix.selection.transformer import cosine, ground_truth
from separatrix.selection.validation import validate, validation_points
from separatrix.training import advance, every

EXPLOSION = 1000.0
"""A run stops if a batch loss is this many times the loss of answering zero."""

_TOKENS, _QUERIES, _VALIDATION, _POINTS, _FIXED, _INITIAL = range(6)


@dataclass(frozen=True)
class Record:
    """A run after `step` updates.

    Attributes:
        step: The number of updates.
        loss: The mean batch loss of the updates since the last record; None at the start.
        lr: The learning rate at this step.
        cosine_W: The cosine between W and the ground truth; None while W is zero.
        cosine_V: The cosine between V and the ground truth; None while V is zero.
        validation: The loss of each validation task, by its name.
        weights: (W, V) at the steps of settings.snapshots.
        stopped: Why the run ended before its last step, if it did; no record follows.
    """

    step: int
    loss: float | None
    lr: float
    cosine_W: float | None
    cosine_V: float | None
    validation: dict[str, float]
    weights: tuple[Tensor, Tensor] | None = None
    stopped: str | None = None


def train(settings: TrainingSettings) -> Generator[Record, None, None]:
    """Train the transformer and yield records every settings.validate_every steps, at the snapshots and at the end."""
    with closing(resumable(settings)) as run:
        for record in run:
            if isinstance(record, Record):
                yield record


def resumable(
    settings: TrainingSettings, *, start: Checkpoint | None = None, checkpoint_every: int | None = None
) -> Generator[Record | Checkpoint, None, None]:
    """Train the transformer and yield the records of `train` and, between them, states to resume from.

    Args:
        settings: The run.
        start: A state of the same run; the records after it equal those of the uninterrupted run. Its tensors are not
            changed.
        checkpoint_every: The number of updates from one state to the next; there is one at the end too, unless the run
            diverged.
    """
    apart = settings.steps or 1 if checkpoint_every is None else whole("checkpoint_every", checkpoint_every, low=1)
    initial = _initial(settings)
    if start is not None and not start.fits(initial):
        raise ArgumentError("start", expected="a state of a run with the same settings", got="one of another run")
    run = _TrainingRun(settings, start or initial)
    recorded = every(settings.validate_every, settings.steps) | set(settings.snapshots)
    saved = frozenset([*range(apart, settings.steps, apart), settings.steps])
    done = frozenset() if start is None else {start.step}  # a state was yielded after the record of its step

    def records_at(step: int) -> Iterator[Record | Checkpoint]:
        if step in recorded:
            yield run.record()
        if step in saved:
            yield run.state()

    try:
        yield from advance(
            run.update, records_at, start=run.step, steps=settings.steps, recorded=(recorded | saved) - done
        )
    finally:
        run.blocks.close()


class _TrainingRun:
    """The state of a run, and its updates."""

    def __init__(self, settings: TrainingSettings, start: Checkpoint) -> None:
        self.settings = settings
        self.step, self.W, self.V = start.step, start.W.clone(), start.V.clone()
        self.moments = tuple(moment.clone() for moment in start.moments)
        self.total, self.count = start.window.tolist()
        self.points = validation_points(settings, derived_generator(settings.seed, _POINTS))
        self.validation = generator_from(start.validation_state)
        self.fixed = _fixed_encoding(settings)
        on_train = self.fixed[: settings.T] if self.fixed is not None else None
        generators = generator_from(start.token_state), generator_from(start.query_state)
        self.blocks = Blocks(settings, on_train, start.step, *generators)

    def update(self, step: int) -> Record | None:
        """Update the weights; if the batch loss diverged, leave them unchanged and return the last record, which says
        so."""
        settings, V = self.settings, self.V
        limit = EXPLOSION * settings.d / (2 * settings.q)
        with one_thread(), torch.no_grad():
            batch = self.blocks.batch()._replace(x_query=query_tokens(settings, step, settings.batch))
            loss, dW, dV = batch_gradient(self.W, V, batch)
            value = float(loss)
            if not value <= limit:  # also if the loss is NaN
                return self.record(
                    f"The run diverged: the batch loss at step {step} is {value:.3g}, above {limit:.3g}."
                )
            self.total, self.count, self.step = self.total + value, self.count + 1, step + 1
            rate, trained = settings.rate(step), _trained(self.W, settings)
            if settings.optimiser == "sgd":
                sgd_update(trained, dW, rate)
                sgd_update(V, dV, rate)
            else:
                adam_update(trained, dW, (self.moments[0], self.moments[1]), rate, self.step)
                adam_update(V, dV, (self.moments[2], self.moments[3]), rate, self.step)
        return None

    def record(self, stopped: str | None = None) -> Record:
        """The record of the step, after which a new window of losses begins. A stopped run is not validated."""
        with one_thread():
            record = Record(
                self.step,
                self.total / self.count if self.count else None,
                self.settings.rate(self.step),
                *_cosines(self.W, self.V),
                {} if stopped else self.validated(),
                (self.W.clone(), self.V.clone()) if self.step in self.settings.snapshots else None,
                stopped,
            )
        self.total, self.count = 0.0, 0
        return record

    def validated(self) -> dict[str, float]:
        tokens = query_tokens(self.settings, self.step, self.settings.validation_batch)
        return validate(self.W, self.V, self.points, self.settings, self.fixed, self.validation, tokens)

    def state(self) -> Checkpoint:
        window = torch.tensor([self.total, self.count], dtype=torch.float64)
        states = (*self.blocks.states, self.validation.get_state())
        moments = tuple(moment.clone() for moment in self.moments)
        return Checkpoint(self.step, self.W.clone(), self.V.clone(), moments, window, *states)


def _cosines(W: Tensor, V: Tensor) -> tuple[float | None, float | None]:
    d = V.shape[0]
    W_star, V_star = ground_truth(d, W.shape[0] - d, dtype=W.dtype)
    values = [cosine(W, W_star), cosine(V, V_star)]
    return (None if math.isnan(values[0]) else values[0]), (None if math.isnan(values[1]) else values[1])


def _fixed_encoding(settings: TrainingSettings) -> Tensor | None:
    if settings.encoding == "stochastic":
        return None
    source = derived_generator(settings.seed, _FIXED)
    return near_orthogonal_encoding(
        settings.longest_T, settings.width, threshold=settings.threshold, generator=source
    ).E


def _initial(settings: TrainingSettings) -> Checkpoint:
    size, d = settings.d + settings.width, settings.d
    W, V = torch.zeros(size, size), torch.zeros(d, size)
    if settings.initial == "random":
        source = derived_generator(settings.seed, _INITIAL)
        W.normal_(0.0, settings.initial_std, generator=source)
        V.normal_(0.0, settings.initial_std, generator=source)
    moments = (*adam_state(_trained(W, settings)), *adam_state(V)) if settings.optimiser == "adam" else ()
    states = [derived_generator(settings.seed, purpose).get_state() for purpose in (_TOKENS, _QUERIES, _VALIDATION)]
    return Checkpoint(0, W, V, moments, torch.zeros(2, dtype=torch.float64), *states)


def _trained(W: Tensor, settings: TrainingSettings) -> Tensor:
    """The columns of W that have a gradient: all of them, or all but the first d if the queries' tokens are zero."""
    return W[:, settings.d :] if settings.query == "zero" else W
