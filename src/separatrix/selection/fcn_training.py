"""Training fully-connected nets on the task, to compare with the infimum for their first width: a generator of records.

>>> run = FCNSettings(T=4, q=2, d=1, widths=(3, 16), steps=200, evaluate_every=100, evaluation_points=500)
>>> [record.step for record in train_fcn(run)]
[0, 100, 200]

The nets are trained with Adam on fresh batches of the flattened input, by autograd; the seed determines the data and
the initial weights of the net.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from separatrix.checks import one_of, positive, whole
from separatrix.selection.arguments import sizes
from separatrix.selection.fcn import FCN, parameter_count
from separatrix.selection.fcn_bound import fcn_infimum
from separatrix.selection.stream import derived_generator
from separatrix.selection.task import Batch, SparseTokenSelection
from separatrix.training import every, train

ActivationKind = Literal["relu", "tanh", "gelu"]
ACTIVATIONS: dict[ActivationKind, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}

_DATA, _POINTS, _INITIAL = range(3)


@dataclass(frozen=True)
class FCNSettings:
    """The settings of the training of a fully-connected net: the task, the net, Adam and the evaluation.

    Attributes:
        T: The length of a sequence.
        q: The size of the subset.
        d: The dimension of a token.
        widths: The hidden widths, first layer first.
        activation: The name of the activation.
        lr: The learning rate.
        batch: The examples of a batch.
        steps: The number of updates.
        seed: The seed of the data and of the initial weights.
        evaluate_every: The number of updates from one record to the next.
        evaluation_points: The number of evaluation examples.
    """

    T: int
    q: int
    d: int
    widths: tuple[int, ...]
    activation: ActivationKind = "relu"
    lr: float = 1e-3
    batch: int = 256
    steps: int = 20_000
    seed: int = 0
    evaluate_every: int = 1000
    evaluation_points: int = 20_000

    def __post_init__(self) -> None:
        sizes(self.T, self.q, self.d)
        positive("lr", self.lr)
        for name, low in (("batch", 1), ("steps", 0), ("seed", 0), ("evaluate_every", 1), ("evaluation_points", 2)):
            whole(name, getattr(self, name), low=low)
        one_of("activation", self.activation, get_args(ActivationKind))


@dataclass(frozen=True)
class FCNRecord:
    """A net after `step` updates.

    Attributes:
        step: The number of updates.
        squared_error: The mean of |M - STS_q|^2 over points on which the net was not trained, twice the loss of
            equation (3).
        standard_error: The standard error of that mean.
        infimum: The infimum over all nets of the same first width, on the same scale.
        parameters: The number of parameters of the net.
    """

    step: int
    squared_error: float
    standard_error: float
    infimum: float
    parameters: int


def train_fcn(settings: FCNSettings) -> Iterator[FCNRecord]:
    """Train a net and yield a record every settings.evaluate_every steps and at the end."""
    T, q, d = settings.T, settings.q, settings.d
    task = SparseTokenSelection(T, q, d)
    net = FCN(
        T,
        q,
        d,
        settings.widths,
        activation=ACTIVATIONS[settings.activation],
        generator=derived_generator(settings.seed, _INITIAL),
    )
    data = derived_generator(settings.seed, _DATA)
    points = task.batch(settings.evaluation_points, generator=derived_generator(settings.seed, _POINTS))
    infimum, parameters = fcn_infimum(settings.widths[0], T, q, d), parameter_count(net)

    def draw() -> Batch:
        return task.batch(settings.batch, generator=data)

    def loss(batch: Batch) -> Tensor:
        X, y, target = batch
        mean: Tensor = 0.5 * (net(X, y) - target).square().sum(1).mean()
        return mean

    @torch.no_grad()
    def record(step: int) -> FCNRecord:
        error = (net(points.X, points.y) - points.target).square().sum(1).double()
        spread = float(error.std()) / len(error) ** 0.5
        return FCNRecord(step, float(error.mean()), spread, infimum, parameters)

    recorded = every(settings.evaluate_every, settings.steps)
    yield from train(net.parameters(), draw, loss, record, steps=settings.steps, recorded=recorded, lr=settings.lr)
