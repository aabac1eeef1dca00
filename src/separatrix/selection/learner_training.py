"""Training any attention with any encoding on the task, with the same data and budget: a generator of records.

>>> run = LearnerSettings(T=6, q=2, d=2, width=6, attention="relu", encoding="one-hot", steps=32, record_every=16)
>>> [record.step for record in train_learner(run)]
[0, 16, 32]

Training is by Adam on fresh batches, with autograd. Runs with the same seed see the same tokens and subsets, whatever
the attention. The seed determines every number of a run. A run that diverges, or whose normaliser vanishes, ends with a
record that says so.

The encodings are "one-hot"; "fixed", near-orthogonal signs drawn once; "stochastic", redrawn at each step;
"sinusoidal"; "learned", which starts as "fixed" and is trained with the weights; and "rotary"
(`separatrix.selection.position_codes`). A longer sequence uses further rows of the same encoding, which do not occur in
training; with stochastic encodings it uses new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from separatrix.checks import one_of, positive, whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.arguments import sizes
from separatrix.selection.encodings import (
    near_orthogonal_encoding,
    near_orthogonal_stack,
    one_hot_encoding,
    solved_weights,
    subset_code,
)
from separatrix.selection.learners import ATTENTIONS, AttentionKind, SelectionLearner
from separatrix.selection.position_codes import RotaryLearner, sinusoidal_encoding
from separatrix.selection.settings import InitialKind
from separatrix.selection.stream import derived_generator
from separatrix.selection.task import subset_average, uniform_subsets
from separatrix.selection.thresholds import feasible_limit
from separatrix.selection.training import EXPLOSION
from separatrix.training import every, train

EncodingChoice = Literal["one-hot", "fixed", "stochastic", "sinusoidal", "learned", "rotary"]
ENCODINGS: tuple[EncodingChoice, ...] = get_args(EncodingChoice)

BLOCK = 32
"""The number of steps whose tokens and subsets are drawn at once."""

EVALUATION_PARTS = 8
"""The number of fresh encodings on which a stochastic run is evaluated, each with an equal share of the points."""

_DATA, _ENCODING, _POINTS, _JUDGED, _FIXED, _INITIAL = range(6)


@dataclass(frozen=True)
class LearnerSettings:
    """The settings of a training run: the task, the attention, the encoding, Adam and the evaluation.

    Attributes:
        T: The length of a sequence.
        q: The size of the subset.
        d: The dimension of a token.
        width: The dimension of the encoding; for one-hot it must be the longest length.
        attention: The name of the attention.
        encoding: The name of the encoding; see the module.
        threshold: The largest inner product that near-orthogonal encodings may have.
        initial: Whether the weights start at random or at zero.
        lr: The learning rate.
        batch: The examples of a batch.
        steps: The number of updates.
        seed: The seed of all random numbers of the run.
        lengths: Further lengths, besides T, at which the run is evaluated.
        record_every: The number of updates from one record to the next.
        evaluation_points: The number of evaluation examples at each length.
    """

    T: int
    q: int
    d: int
    width: int
    attention: AttentionKind
    encoding: EncodingChoice
    threshold: float = 0.5
    initial: InitialKind = "random"
    lr: float = 0.01
    batch: int = 32
    steps: int = 400
    seed: int = 0
    lengths: tuple[int, ...] = ()
    record_every: int = 100
    evaluation_points: int = 2048

    def __post_init__(self) -> None:
        sizes(self.T, self.q, self.d)
        positive("lr", self.lr)
        for name, low in (("batch", 1), ("steps", 0), ("seed", 0), ("record_every", 1)):
            whole(name, getattr(self, name), low=low)
        whole("evaluation_points", self.evaluation_points, low=2 * EVALUATION_PARTS)
        for T in self.lengths:
            whole("lengths", T, low=self.q)
        for name, kinds in (("attention", ATTENTIONS), ("encoding", ENCODINGS), ("initial", get_args(InitialKind))):
            one_of(name, getattr(self, name), kinds)
        if self.encoding == "rotary" and self.attention != "softmax QK":
            raise ArgumentError("attention", expected="'softmax QK' with rotary positions", got=self.attention)
        if self.encoding == "one-hot" and self.width != self.longest:
            raise ArgumentError("width", expected=f"{self.longest}, the longest length, for one-hot", got=self.width)
        if self.encoding in ("fixed", "learned", "stochastic"):
            feasible_limit(self.longest, self.width, self.threshold)

    @property
    def longest(self) -> int:
        """The longest sequence of the run."""
        return max((self.T, *self.lengths))


@dataclass(frozen=True)
class LearnerRecord:
    """A run after `step` updates.

    Attributes:
        step: The number of updates.
        losses: The loss of equation (3) by length, on points on which the run was not trained.
        errors: The standard errors of the losses.
        parameters: The number of parameters.
        stopped: Why the run ended before its last step, if it did; its losses are then those that could still be
            computed, possibly none.
    """

    step: int
    losses: dict[int, float]
    errors: dict[int, float]
    parameters: int
    stopped: str | None = None


class _Inputs(NamedTuple):
    """A batch of inputs.

    Attributes:
        X: The tokens (n, T, d).
        y: The subsets (n, q).
        g: The weights (n, q) that make the subset codes: e_y = sum_j g_j e_j.
        E: The encodings (T, width).
    """

    X: Tensor
    y: Tensor
    g: Tensor
    E: Tensor


class _Model(nn.Module):
    """The attention with its encoding, which is a parameter too when it is learned."""

    def __init__(self, settings: LearnerSettings) -> None:
        super().__init__()
        first = derived_generator(settings.seed, _INITIAL)
        self.layer: SelectionLearner | RotaryLearner
        if settings.encoding == "rotary":
            self.layer = RotaryLearner(settings.d, settings.width, generator=first)
        else:
            zero = settings.initial == "zero"
            self.layer = SelectionLearner(settings.attention, settings.d, settings.width, generator=first, zero=zero)
        # The encodings of all positions in the run; None if every step draws its own.
        table = _table(settings)
        self.table = nn.Parameter(table) if table is not None and settings.encoding == "learned" else table

    def forward(self, inputs: _Inputs) -> Tensor:
        X, y, g, E = inputs
        if isinstance(self.layer, RotaryLearner):
            out: Tensor = self.layer(X, y, g)
        elif isinstance(self.table, nn.Parameter):
            E = self.table[: X.shape[1]]
            out = self.layer(X, E, subset_code(E, y))
        else:
            out = self.layer(X, E, (E[y] * g.unsqueeze(2)).sum(1))
        return out

    def loss(self, inputs: _Inputs) -> Tensor:
        """The loss of each example (n,)."""
        losses: Tensor = 0.5 * (self(inputs) - subset_average(inputs.X, inputs.y)).square().sum(1)
        return losses


def train_learner(settings: LearnerSettings) -> Iterator[LearnerRecord]:
    """Train an attention and yield a record every settings.record_every steps and at the end.

    A run that diverges, or whose normaliser vanishes, ends with a record that says so.
    """
    model = _Model(settings)
    points = {T: _points(settings, T, model.table) for T in dict.fromkeys((settings.T, *settings.lengths))}
    batches = _batches(settings, model.table)
    for record in train(
        model.parameters(),
        lambda: next(batches),
        lambda inputs: _batch_loss(model, inputs, settings),
        lambda step: _judged(model, points, step),
        steps=settings.steps,
        recorded=every(settings.record_every, settings.steps),
        lr=settings.lr,
        fused=True,
        stopped=lambda step, why: LearnerRecord(step, {}, {}, _count(model), f"Stopped at step {step}: {why}"),
    ):
        yield record
        if record.stopped:
            return


def _batch_loss(model: _Model, inputs: _Inputs, settings: LearnerSettings) -> Tensor:
    """The mean loss of a batch; an error if it is so large that the run must stop."""
    loss = model.loss(inputs).mean()
    value = float(loss.detach())
    if not value <= EXPLOSION * settings.d / (2 * settings.q):  # also if the loss is NaN
        raise SeparatrixError(f"the batch loss is {value:.3g}, {EXPLOSION:g} times that of answering zero or more.")
    return loss


@torch.no_grad()
def _judged(model: _Model, points: dict[int, list[_Inputs]], step: int) -> LearnerRecord:
    losses, errors = {}, {}
    try:
        for T, parts in points.items():
            sample_losses = torch.cat([model.loss(inputs) for inputs in parts]).double()
            losses[T], errors[T] = float(sample_losses.mean()), float(sample_losses.std()) / len(sample_losses) ** 0.5
    except SeparatrixError as refused:
        return LearnerRecord(step, losses, errors, _count(model), f"Stopped at step {step}: {refused}")
    return LearnerRecord(step, losses, errors, _count(model))


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _table(settings: LearnerSettings) -> Tensor | None:
    """The encodings of the longest sequence, or None if they are redrawn at each step."""
    longest, width = settings.longest, settings.width
    if settings.encoding == "stochastic":
        return None
    if settings.encoding == "one-hot":
        return one_hot_encoding(longest)
    if settings.encoding in ("sinusoidal", "rotary"):
        return sinusoidal_encoding(longest, width)
    source = derived_generator(settings.seed, _FIXED)
    return near_orthogonal_encoding(longest, width, threshold=settings.threshold, generator=source).E


def _batches(settings: LearnerSettings, table: Tensor | None) -> Iterator[_Inputs]:
    data, encodings = derived_generator(settings.seed, _DATA), derived_generator(settings.seed, _ENCODING)
    while True:
        yield from _drawn(settings, BLOCK, settings.batch, settings.T, table, data, encodings)


def _points(settings: LearnerSettings, T: int, table: Tensor | None) -> list[_Inputs]:
    """The evaluation examples of a run at one length, with the same tokens for every encoding."""
    data, encodings = derived_generator(settings.seed, _POINTS), derived_generator(settings.seed, _JUDGED)
    n = settings.evaluation_points // EVALUATION_PARTS
    return list(_drawn(settings, EVALUATION_PARTS, n, T, table, data, encodings))


def _drawn(
    settings: LearnerSettings,
    count: int,
    n: int,
    T: int,
    table: Tensor | None,
    data: torch.Generator,
    encodings: torch.Generator,
) -> Iterator[_Inputs]:
    """`count` batches of n examples of length T, drawn at once."""
    q, width = settings.q, settings.width
    X = torch.randn(count, n, T, settings.d, generator=data)
    y = uniform_subsets(count * n, T, q, data).reshape(count, n, q)
    if table is None:
        E = near_orthogonal_stack(count, T, width, threshold=settings.threshold, generator=encodings).E
    else:
        E = table.detach()[:T].expand(count, -1, -1)
    E_y = E[torch.arange(count).view(-1, 1, 1), y]
    g = solved_weights(E_y @ E_y.mT, y)
    yield from map(_Inputs._make, zip(X, y, g, E, strict=True))
