r"""The paper's networks with trained instead of random weights: y, or y and X = Q K^T, are learned.

The networks, tau and the data are the paper's; only the weights are trained. The network F fires exactly when its score

    s = max over queries j0 and columns l of <c_{j0}, y_l>, minus tau

is positive, so s is the margin of the classifier "D1 if F > 0", and training minimises the logistic loss

    mean over the examples of log(1 + exp(-label * s)),    label = -1 on D0, +1 on D1.

Training starts from the paper's random signs y (and its X), and every step uses all examples. The optimiser is Adam
(Kingma and Ba, "Adam: A Method for Stochastic Optimization") with a learning rate that decreases linearly to zero: the
gradient of linear attention is of size 1 / n, and the steps of plain gradient descent would be as small. Everything is
in float64, and a seed determines the examples and the signs; the seeds are trained in one batch, independently of each
other.

A good y can also be given explicitly: y = K e_1 reads the one coordinate in which the data sets differ (`by_hand`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from separatrix.checks import one_of, positive, whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation.examples import Examples, attend, draw_examples, initial_weights, rows_at, stack
from separatrix.separation.results import Estimate, wilson
from separatrix.separation.simulation import LARGEST_N, random_signs
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.tokens import AttentionSetting
from separatrix.training import train

LearningSetting = AttentionSetting | SoftmaxRegression


@dataclass(frozen=True)
class Learned:
    """The result of training with one seed: shares of correctly classified examples, with their 95 % Wilson intervals.

    Attributes:
        seed: the seed.
        train: the share on the training examples.
        held_out: for each of the `factors`, the share on new examples with factor * n tokens.
        signs: the share before training, with random y, on the new examples for the first factor.
        loss: the training loss at the end.
        size: the largest |y_l|.
    """

    seed: int
    train: Estimate
    held_out: tuple[Estimate, ...]
    signs: Estimate
    loss: float
    size: float


def learn(
    setting: LearningSetting,
    mechanism: Literal["softmax", "linear"],
    trained: Literal["y", "y and X"],
    *,
    examples: int,
    steps: int,
    seeds: Sequence[int],
    rate: float = 0.1,
    factors: Sequence[int] = (1,),
    held_out: int = 200,
) -> tuple[Learned, ...]:
    """Train the network once for each seed, on random elements of the two data sets (see the module `examples`).

    Args:
        setting: the setting, whose tau and m are the network's.
        mechanism: whether the attention is softmax or linear.
        trained: which weights are trained: "y", or "y and X". In softmax regression X is the number x, which cancels
            in linear attention and is an inverse temperature in softmax attention.
        examples: how many training examples to draw from each data set.
        steps: how many steps of Adam to take.
        seeds: the seeds, each of which determines its examples and its initial signs.
        rate: the learning rate of the first step.
        factors: the lengths of the held-out examples in units of n. In softmax regression y has an entry for every
            token, so only the factor 1 is possible.
        held_out: how many held-out examples of each length to draw from each data set.

    Raises:
        SeparatrixError: if training diverges.

    Example:
        >>> from separatrix.separation.self_attention import SelfAttention
        >>> setting = SelfAttention(n=40, d=4, m=8, a0=0.09, a1=1, b=0.2, c=0.8, weights="ones")
        >>> for mechanism in ("softmax", "linear"):
        ...     [learned] = learn(setting, mechanism, "y", examples=16, steps=300, seeds=[1], factors=(1, 64))
        ...     print(mechanism, *(estimate.value for estimate in (learned.signs, *learned.held_out)))
        softmax 0.5 1.0 1.0
        linear 0.2925 0.99 0.5
    """
    _check(setting, mechanism, trained, examples, steps, seeds, rate, factors, held_out)
    generators = [torch.Generator().manual_seed(whole("seeds", seed, low=0)) for seed in seeds]
    data = _drawn(setting, examples, generators)
    lengths = [dataclasses.replace(setting, n=factor * setting.n) for factor in factors]
    fresh = [_drawn(longer, held_out, generators) for longer in lengths]
    width = setting.n if isinstance(setting, SoftmaxRegression) else setting.d
    y = torch.stack([random_signs((width, setting.m), generator).double() for generator in generators])
    X = initial_weights(setting).repeat(len(generators), 1, 1, 1)

    def attended(over: Examples) -> Tensor:
        return attend(over, X, softmax=mechanism == "softmax", regression=isinstance(setting, SoftmaxRegression))

    signs = _right(_score(attended(fresh[0]), y, setting.threshold), fresh[0].label)
    fixed = attended(data) if trained == "y" else None
    parameters = [y.requires_grad_()] if trained == "y" else [y.requires_grad_(), X.requires_grad_()]

    def loss(batch: Examples) -> Tensor:
        return _loss(_score(attended(batch) if fixed is None else fixed, y, setting.threshold), batch.label).sum()

    @torch.no_grad()
    def record(_: int) -> tuple[Learned, ...]:
        s = _score(attended(data), y, setting.threshold)
        losses, shares = _loss(s, data.label), _right(s, data.label)
        if not losses.isfinite().all():
            raise SeparatrixError(f"{mechanism} attention: training diverged at a rate of {rate:g}.")
        right = [
            _right(_score(attended(over), y, longer.threshold), over.label)
            for over, longer in zip(fresh, lengths, strict=True)
        ]
        size = y.norm(dim=1).amax(1)
        return tuple(
            Learned(seed, shares[i], tuple(share[i] for share in right), signs[i], float(losses[i]), float(size[i]))
            for i, seed in enumerate(seeds)
        )

    [learned] = train(
        parameters, lambda: data, loss, record, steps=steps, recorded={steps}, lr=lambda step: rate * (1 - step / steps)
    )
    return learned


def _drawn(setting: LearningSetting, count: int, generators: list[torch.Generator]) -> Examples:
    return stack([draw_examples(setting, count, generator) for generator in generators])


def _score(c: Tensor, y: Tensor, tau: float) -> Tensor:
    """The scores s, (seeds, examples), from c, (seeds, examples, queries, width), and y, (seeds, width, m)."""
    seeds, examples = c.shape[:2]
    return (c.flatten(1, 2) @ y).reshape(seeds, examples, -1).amax(2) - tau


def _loss(s: Tensor, label: Tensor) -> Tensor:
    return softplus(-label * s).mean(1)


def _right(s: Tensor, label: Tensor) -> list[Estimate]:
    """For each seed, the share of the examples that are classified correctly; F fires where s > 0."""
    hits = ((s > 0) == (label > 0)).sum(1).tolist()
    return [wilson(hit, label.shape[1]) for hit in hits]


@dataclass(frozen=True)
class ByHand:
    """The classifier with y = K e_1 for one mechanism.

    Attributes:
        on_d0: the largest first coordinate of c on D0.
        on_d1: the largest first coordinate of c on D1.
        K: a factor for which tau lies between K on_d0 and K on_d1; None if on_d1 is not larger than on_d0, because
        there is no such factor.
    """

    on_d0: float
    on_d1: float
    K: float | None


def by_hand(setting: AttentionSetting, mechanism: Literal["softmax", "linear"]) -> ByHand:
    """The classifier with y = K e_1 and K = tau / sqrt(on_d0 * on_d1), at the setting's own a0 and a1.

    It also separates elements with a smaller a in D0 or a larger a in D1.

    Args:
        setting: the setting.
        mechanism: whether the attention is softmax or linear.

    Example:
        >>> from separatrix.separation.cross_attention import CrossAttention
        >>> learned = [by_hand(CrossAttention(n, 5, 1, a0=0.05, a1=2), "linear") for n in (40, 4000)]
        >>> [round(weights.on_d1 / weights.on_d0, 2) for weights in learned], [round(weights.K) for weights in learned]
        ([2.72, 2.86], [21, 2029])
    """
    _check_mechanism(mechanism)
    values = setting.values()
    largest = []
    for name in ("a0", "a1"):
        a = float(values[name])
        rows = rows_at(setting, torch.tensor([a], dtype=torch.float64), torch.zeros(1, dtype=torch.int64))
        c = attend(rows, initial_weights(setting), softmax=mechanism == "softmax", regression=False)
        largest.append(float(c[..., 0].max()))
    on_d0, on_d1 = largest
    return ByHand(on_d0, on_d1, setting.threshold / math.sqrt(on_d0 * on_d1) if on_d1 > on_d0 else None)


def _check_mechanism(mechanism: str) -> None:
    one_of("mechanism", mechanism, ("softmax", "linear"))


def _check(
    setting: LearningSetting,
    mechanism: str,
    trained: str,
    examples: int,
    steps: int,
    seeds: Sequence[int],
    rate: float,
    factors: Sequence[int],
    held_out: int,
) -> None:
    _check_mechanism(mechanism)
    one_of("trained", trained, ("y", "y and X"))
    for name, value in (("examples", examples), ("steps", steps), ("held_out", held_out)):
        whole(name, value, low=1)
    if not seeds:
        raise ArgumentError("seeds", expected="at least one", got=seeds)
    positive("rate", rate)
    if not factors:
        raise ArgumentError("factors", expected="at least one", got=factors)
    for factor in factors:
        whole("factors", factor, low=1)
        if factor * setting.n > LARGEST_N:
            raise ArgumentError("factors", expected=f"at most {LARGEST_N} tokens, in float64", got=factor * setting.n)
        if factor != 1 and isinstance(setting, SoftmaxRegression):
            raise ArgumentError("factors", expected="1 alone, as y has an entry for each token", got=factor)
