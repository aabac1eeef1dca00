"""Matching by training: a one-layer model with heads of order 2 or 3 learns to recognise planted pairs or triples.

    logit(x) = MLP([e_0, TensorAttention(e_0, e, e)]),    e_j a learned embedding of the residue x_j

reads off position 0 of `planted_instances`. Models of different orders have **exactly the same number of parameters**:
a head of order 3 has two more projections, of w (w + 1) parameters each, and so the model of order 2 has w more hidden
units in its readout. They see the same instances in the same order and take the same number of steps, but a step at
order 3 takes more operations.

>>> run = MatchTraining(order=3, task=3, n=6, modulus=7, steps=20, evaluate_every=10, evaluation_points=100)
>>> [(record.step, record.parameters) for record in train_match(run)]
[(0, 3921), (10, 3921), (20, 3921)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from separatrix.checks import positive, whole
from separatrix.errors import ArgumentError
from separatrix.hardness.match_instances import planted_instances
from separatrix.nn import TensorAttention
from separatrix.training import every, generator_for, train

_DATA, _POINTS, _INITIAL = range(3)


@dataclass(frozen=True)
class MatchTraining:
    """The settings of a training run: `steps` steps of Adam at the rate `lr`, each on a fresh batch.

    Attributes:
        order: the order of the heads.
        task: 2 for pairs, 3 for triples.
        n: the number of tokens.
        modulus: M.
        width: the dimension of the embedding.
        heads: the number of heads.
        hidden: the number of hidden units of the readout at order 3.
        lr: the learning rate.
        batch: the number of instances of a batch.
        steps: the number of updates.
        seed: the seed of the data and of the initial weights.
        evaluate_every: the number of updates between evaluations.
        evaluation_points: the number of instances of an evaluation.
    """

    order: int
    task: int
    n: int
    modulus: int
    width: int = 16
    heads: int = 1
    hidden: int = 64
    lr: float = 5e-3
    batch: int = 128
    steps: int = 3000
    seed: int = 0
    evaluate_every: int = 500
    evaluation_points: int = 4000

    def __post_init__(self) -> None:
        for name, low in (("order", 2), ("n", 2), ("modulus", 3), ("width", 1), ("heads", 1), ("hidden", 1)):
            whole(name, getattr(self, name), low=low)
        for name, low in (("batch", 1), ("steps", 0), ("seed", 0), ("evaluate_every", 1), ("evaluation_points", 1)):
            whole(name, getattr(self, name), low=low)
        whole("task", self.task, low=2, high=3)
        positive("lr", self.lr)
        if self.readout < 1:
            least = (self.order - 3) * self.width + 1
            raise ArgumentError("hidden", expected=f"at least {least} at order {self.order}", got=self.hidden)

    @property
    def readout(self) -> int:
        """The number of hidden units of the readout at this order: each has 2 w + 2 parameters, so w of them have as
        many as two projections, w (w + 1) each."""
        return self.hidden + (3 - self.order) * self.width


@dataclass(frozen=True)
class MatchRecord:
    """A model after `step` updates, evaluated on instances on which it was not trained: the share of correct labels,
    and the mean loss."""

    step: int
    accuracy: float
    loss: float
    parameters: int


class MatchModel(nn.Module):
    """The model of a run, with initial weights drawn from `generator`; `attention` is the class of its layer."""

    def __init__(
        self, run: MatchTraining, generator: torch.Generator, attention: Callable[..., nn.Module] = TensorAttention
    ) -> None:
        super().__init__()
        w = run.width
        self.embedding = nn.Parameter(torch.randn(run.modulus, w, generator=generator))
        scale = (run.heads / w) ** 0.5
        self.attention = attention(w, run.heads, run.order, scale=scale, generator=generator)
        self.hidden = nn.utils.skip_init(nn.Linear, 2 * w, run.readout)
        self.logit = nn.utils.skip_init(nn.Linear, run.readout, 1)
        for layer in (self.hidden, self.logit):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The logit (batch,) that position 0 of x (batch, n) has a match."""
        e = self.embedding[x]
        first = e[:, :1]
        read = torch.cat([first, self.attention(first, e)], -1)
        logit: Tensor = self.logit(torch.relu(self.hidden(read)))
        return logit[:, 0, 0]


def train_match(run: MatchTraining, attention: Callable[..., nn.Module] = TensorAttention) -> Iterator[MatchRecord]:
    """Train a model with a layer of the class `attention`, and evaluate it every run.evaluate_every steps and at the
    end."""
    model = MatchModel(run, generator_for(run.seed, _INITIAL), attention)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    data = generator_for(run.seed, _DATA)
    x_points, label_points = _drawn(run, run.evaluation_points, generator_for(run.seed, _POINTS))

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        x, label = batch
        return binary_cross_entropy_with_logits(model(x), label.float())

    @torch.no_grad()
    def record(step: int) -> MatchRecord:
        logit = model(x_points)
        right = float(((logit > 0) == label_points).double().mean())
        mean = float(binary_cross_entropy_with_logits(logit.double(), label_points.double()))
        return MatchRecord(step, right, mean, parameters)

    recorded = every(run.evaluate_every, run.steps)
    yield from train(
        model.parameters(),
        lambda: _drawn(run, run.batch, data),
        loss,
        record,
        steps=run.steps,
        recorded=recorded,
        lr=run.lr,
    )


def _drawn(run: MatchTraining, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return planted_instances(count, run.n, run.modulus, run.task, generator=generator)
