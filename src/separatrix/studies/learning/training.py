"""Trains a model with some attention on a task, evaluates it on held-out inputs, and yields records.

Runs of one seed are trained on the same inputs in the same order with every attention, and evaluated on the same
inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from separatrix import training
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.studies.learning.mechanisms import AttentionKind
from separatrix.studies.learning.models import Model, Sizes
from separatrix.studies.learning.tasks.task import Task, TaskBatch
from separatrix.training import generator_for

__all__ = ["ModelRecord", "Run", "judged", "train"]

_TRAINING, _HELD_OUT, _INITIAL = range(3)


@dataclass(frozen=True)
class Run:
    """The settings of a training run by Adam on fresh batches.

    Attributes:
        kind: The attention of the model.
        steps: The number of updates.
        judged_at: The numbers of updates after which the model is evaluated.
        sizes: The sizes of the model.
        batch: The inputs of a batch.
        lr: The learning rate.
        points: The number of held-out inputs.
        tolerance: The tolerance of bounded layers (see `mechanisms.layer_of`).
        seed: The seed of the data and of the initial weights.
    """

    kind: AttentionKind
    steps: int
    judged_at: tuple[int, ...]
    sizes: Sizes = field(default_factory=Sizes)
    batch: int = 64
    lr: float = 3e-3
    points: int = 2048
    tolerance: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("steps", 0), ("batch", 1), ("points", 1), ("seed", 0)):
            number = getattr(self, name)
            if not is_whole(number, low=low):
                raise ArgumentError(name, expected=f"an integer >= {low}", got=number)
        if not 0 < self.lr < math.inf:
            raise ArgumentError("lr", expected="a finite number > 0", got=self.lr)
        if not self.judged_at or not all(0 <= step <= self.steps for step in self.judged_at):
            raise ArgumentError("judged_at", expected=f"steps from 0 to {self.steps}", got=self.judged_at)


@dataclass(frozen=True)
class ModelRecord:
    """The evaluation of a model after `step` updates on held-out inputs.

    Attributes:
        step: The number of updates.
        accuracy: The fraction of right answers.
        loss: The mean loss, in nats.
    """

    step: int
    accuracy: float
    loss: float


def train(task: Task, run: Run, model: Model | None = None) -> Iterator[ModelRecord]:
    """Train and yield the records of a run.

    Args:
        task: The task.
        run: The settings of training and evaluation.
        model: The model, which is trained in place; None for a new model.

    Example:
        >>> from separatrix.studies.learning.tasks.recall import Recall
        >>> [record.step for record in train(Recall().task, Run(AttentionKind(), steps=4, judged_at=(0, 4), points=8))]
        [0, 4]
    """
    trained = fresh(task, run) if model is None else model
    data = generator_for(run.seed, _TRAINING)
    points = held_out(task, run)

    def draw() -> TaskBatch:
        return task.training(run.batch, data)

    def loss(batch: TaskBatch) -> Tensor:
        return cross_entropy(trained(batch.tokens).flatten(0, 1), batch.answers.flatten())

    def record(step: int) -> ModelRecord:
        return ModelRecord(step, *judged(trained, points, run.batch))

    yield from training.train(
        trained.parameters(), draw, loss, record, steps=run.steps, recorded=run.judged_at, lr=run.lr
    )


def fresh(task: Task, run: Run) -> Model:
    """The initial model of a run, with weights drawn from the run's seed."""
    generator = generator_for(run.seed, _INITIAL)
    return Model(task, run.sizes, run.kind, tolerance=run.tolerance, generator=generator)


def held_out(task: Task, run: Run) -> TaskBatch:
    """The held-out inputs of a run."""
    return task.held_out(run.points, generator_for(run.seed, _HELD_OUT))


def judged(model: Model, points: TaskBatch, chunk: int) -> tuple[float, float]:
    """The accuracy and mean loss of a model on `points`, computed on `chunk` inputs at a time."""
    right = loss = 0.0
    with torch.no_grad():
        for tokens, answers in zip(points.tokens.split(chunk), points.answers.split(chunk), strict=True):
            logits = model(tokens).double()
            right += float((logits.argmax(-1) == answers).sum())
            loss += float(cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="sum"))
    return right / points.answers.numel(), loss / points.answers.numel()
