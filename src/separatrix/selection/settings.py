"""The settings of a training run of the selection transformer.

The paper's runs (Section 4 and Appendix F of Wang, Wei, Hsu and Lee) are `paper_settings`; the small run of its Figures
3 and 8 is `heat_map_settings`. Where the paper gives no value, we chose one. The dot-product threshold is 0.4, and 0.2
in the small run: among 10 sign vectors of width 20 a threshold of 0.4 leaves subsets that no attention separates from
the rest. The small run has stochastic encodings, q = 3 and the rates 0.3 and, in its second half, 0.1: with tokens of
20 dimensions it does not converge at the rate 1. Batches have 256 examples (Section 4 of the paper) unless 128 (its
Appendix F) is chosen.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Literal, get_args

from separatrix.checks import one_of, positive, whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import sizes
from separatrix.selection.thresholds import feasible_limit

EncodingKind = Literal["stochastic", "fixed"]
OptimiserKind = Literal["sgd", "adam"]
InitialKind = Literal["zero", "random"]
QueryKind = Literal["zero", "fixed", "drawn"]


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a run. Equal settings give runs that are equal bit for bit on one machine.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        width: the dimension of an encoding.
        encoding: "stochastic" draws one encoding for each step and one for each validation task; "fixed" draws one
            encoding for the whole run, with `longest_T` positions.
        threshold: the largest |<e_i, e_j>| of an encoding.
        optimiser: "sgd" or "adam".
        lr: the learning rate from each step on, as (step, rate) pairs, the first at step 0.
        initial: "zero", or "random" for entries of standard deviation `std`.
        std: the standard deviation of a random start; None stands for 1/sqrt(d + width).
        batch: the number of examples of a step.
        steps: the number of steps.
        seed: the seed of all randomness.
        validate_every: how many steps lie between validations.
        validation_T: the numbers of tokens of validation tasks whose q is that of the training.
        validation_q: the subset sizes of validation tasks whose T is that of the training.
        validation_batch: the number of fixed points of each validation task.
        snapshots: the steps whose records contain the weights.
        query: the token of the query, which the paper does not give for its runs: "zero", "fixed" for one drawn from
            N(0, I) for the whole run, or "drawn" for a separate draw for each example.
    """

    T: int = 200
    q: int = 3
    d: int = 5
    width: int = 170
    encoding: EncodingKind = "stochastic"
    threshold: float = 0.4
    optimiser: OptimiserKind = "sgd"
    lr: tuple[tuple[int, float], ...] = ((0, 1.0), (50_000, 1 / 3))
    initial: InitialKind = "zero"
    std: float | None = None
    batch: int = 256
    steps: int = 100_000
    seed: int = 0
    validate_every: int = 100
    validation_T: tuple[int, ...] = (250, 300, 350, 400)
    validation_q: tuple[int, ...] = (5, 6, 7, 8)
    validation_batch: int = 128
    snapshots: tuple[int, ...] = ()
    query: QueryKind = "zero"

    def __post_init__(self) -> None:
        sizes(self.T, self.q, self.d)
        whole("width", self.width, low=1)
        for name, low in (("batch", 1), ("steps", 0), ("seed", 0), ("validate_every", 1), ("validation_batch", 1)):
            whole(name, getattr(self, name), low=low)
        named = {"encoding": EncodingKind, "optimiser": OptimiserKind, "initial": InitialKind, "query": QueryKind}
        for name, kinds in named.items():
            one_of(name, getattr(self, name), get_args(kinds))
        for T in self.validation_T:
            whole("validation_T", T, low=self.q)
        for q in self.validation_q:
            whole("validation_q", q, low=1, high=self.T)
        for step in self.snapshots:
            whole("snapshots", step, low=0, high=self.steps)
        starts = [start for start, _ in self.lr]
        if starts[:1] != [0] or starts != sorted(set(starts)):
            raise ArgumentError("lr", expected="(step, rate) pairs with ascending steps from 0", got=self.lr)
        for _, rate in self.lr:
            positive("lr", rate)
        if self.std is not None:
            positive("std", self.std)
        feasible_limit(self.longest_T, self.width, self.threshold)

    @property
    def longest_T(self) -> int:
        """The largest number of tokens of any task of the run, which is the number of positions of a fixed encoding."""
        return max(self.T, *self.validation_T) if self.validation_T else self.T

    @property
    def initial_std(self) -> float:
        """The standard deviation of a random start."""
        return self.std if self.std is not None else 1 / math.sqrt(self.d + self.width)

    def rate(self, step: int) -> float:
        """The learning rate of the update number `step`, counted from 0.

        >>> TrainingSettings().rate(49_999), TrainingSettings().rate(50_000) == 1 / 3
        (1.0, True)
        """
        return next(rate for start, rate in reversed(self.lr) if start <= step)

    def to_json(self) -> str:
        """The settings as JSON, with sorted keys: equal strings mean equal settings."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def paper_settings(
    encoding: EncodingKind, optimiser: OptimiserKind, initial: InitialKind, *, seed: int = 0, batch: int = 256
) -> TrainingSettings:
    """The settings of the runs of Section 4 and Appendices F.1 to F.4: T = 200, q = 3, d = 5, width 170, 100,000 steps.

    Args:
        encoding: "stochastic" or "fixed".
        optimiser: "sgd" or "adam", which also decides the learning rate.
        initial: "zero" or "random".
        seed: the seed of all randomness.
        batch: the number of examples of a step.

    Example:
        >>> paper_settings("fixed", "adam", "random").lr
        ((0, 0.001),)
    """
    lr = ((0, 1.0), (50_000, 1 / 3)) if optimiser == "sgd" else ((0, 1e-3),)
    return TrainingSettings(encoding=encoding, optimiser=optimiser, initial=initial, lr=lr, seed=seed, batch=batch)


def heat_map_settings(*, seed: int = 0) -> TrainingSettings:
    """The settings of the small run of Figures 3 and 8: T = 10, d = width = 20, a random start of std 1/sqrt(width).

    >>> heat_map_settings().snapshots
    (0, 100, 500, 50000)
    """
    return TrainingSettings(
        T=10,
        d=20,
        width=20,
        threshold=0.2,
        lr=((0, 0.3), (25_000, 0.1)),
        initial="random",
        std=1 / math.sqrt(20),
        seed=seed,
        validation_T=(),
        validation_q=(),
        steps=50_000,
        snapshots=(0, 100, 500, 50_000),
    )
