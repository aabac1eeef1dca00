r"""The probabilities of the paper's events with any mechanism in place of `exp`, exactly or by simulation.

`outcome` is exact: `sign_vectors` decides which of the 2^d sign vectors fire, and the probabilities for m vectors
follow from these shares as in `exact`. `simulate_outcome` runs the library's own attention on all n tokens. It also
supports softmax regression, where y has a sign for each token, and widths too large for enumeration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from separatrix.checks import whole
from separatrix.separation.exact import probabilities
from separatrix.separation.mechanisms import Mechanism, linear
from separatrix.separation.mixture import Mixture, Share
from separatrix.separation.regression_simulation import regression_draws
from separatrix.separation.results import Estimate, wilson
from separatrix.separation.sign_vectors import fired_by_class
from separatrix.separation.simulation import random_signs
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.tokens import AttentionSetting, class_sizes

_BATCH_BYTES = 2**24


@dataclass(frozen=True)
class Outcome:
    """The probabilities of the events for a mechanism; all networks share the same y.

    Attributes:
        fires_on_d1: the mechanism fires on D1.
        silent_on_d0: the mechanism is silent on D0.
        separates: the mechanism fires on D1 and is silent on D0.
        success: the mechanism separates, and `lin` is silent on D0 and D1. This is the paper's success, with the
            mechanism in place of `exp`.
    """

    fires_on_d1: float
    silent_on_d0: float
    separates: float
    success: float


@dataclass(frozen=True)
class OutcomeEstimate:
    """Estimates of the probabilities in `Outcome`, under the same names, all from one set of trials."""

    fires_on_d1: Estimate
    silent_on_d0: Estimate
    separates: Estimate
    success: Estimate


def outcome(setting: AttentionSetting, mechanism: Mechanism) -> Outcome:
    """The exact probabilities, by enumeration of the 2^d sign vectors, for d <= 16; n is not limited.

    >>> from separatrix.separation.mechanisms import softmax
    >>> from separatrix.separation.self_attention import SelfAttention
    >>> setting = SelfAttention(n=40, d=7, m=15, a0=0.01, a1=1.2, b=0.2, c=0.8)
    >>> abs(outcome(setting, softmax()).success - setting.success_probability().success) < 1e-15
    True
    >>> outcome(setting, linear("identity")).success
    0.0
    """
    fired = {which: fired_by_class(setting, mechanism, which) for which in (0, 1)}
    lin = {which: fired_by_class(setting, linear("identity"), which) for which in (0, 1)}
    sizes = class_sizes(setting)
    case = [Fraction(size, setting.n) for size in sizes]
    classes = list(fired[1])
    alone, joint = [], []
    for k1 in classes:
        for k0 in classes:
            good, weight = fired[1][k1], case[k1] * case[k0]
            out = fired[0][k0]
            alone.append((weight, _share(out), _share(good & ~out)))
            bad = out | lin[1][k1] | lin[0][k0]
            joint.append((weight, _share(bad), _share(good & ~bad)))
    d1, d0 = (tuple((case[k], _share(fired[which][k]), _share(lin[which][k])) for k in classes) for which in (1, 0))
    both = probabilities(Mixture(tuple(joint), d1, d0), setting.m, True)
    separates = probabilities(Mixture(tuple(alone), d1, d0), setting.m, True).success
    values = (both.exp_fires_on_d1, both.exp_silent_on_d0, separates, both.success)
    return Outcome(*map(float, values))


def simulate_outcome(
    setting: AttentionSetting | SoftmaxRegression, mechanism: Mechanism, trials: int, seed: int
) -> OutcomeEstimate:
    """Estimate the probabilities of `Outcome` by the paper's Monte Carlo, with the library's attention on all n tokens.

    Args:
        setting: the setting.
        mechanism: the mechanism in place of `exp`.
        trials: the number of independent trials.
        seed: the seed of the generator that draws the data and the signs.

    Example:
        >>> from separatrix.separation.mechanisms import softmax
        >>> simulate_outcome(SoftmaxRegression(100, 4), softmax(), trials=50, seed=0).success.hits
        45
    """
    whole("trials", trials, low=1)
    generator = torch.Generator().manual_seed(whole("seed", seed, low=0))
    lin, hits = linear("identity"), torch.zeros(4, dtype=torch.int64)
    if isinstance(setting, SoftmaxRegression):
        drawn = _regression(setting, trials, generator)
    else:
        drawn = _attention(setting, trials, generator)
    for on_d1, on_d0, y in drawn:
        d1, d0, lin1, lin0 = (
            ((used.attend(*data) @ y) > setting.threshold).flatten(1).any(1)
            for used in (mechanism, lin)
            for data in (on_d1, on_d0)
        )
        separates = d1 & ~d0
        hits += torch.stack([d1.sum(), (~d0).sum(), separates.sum(), (separates & ~lin1 & ~lin0).sum()])
    names = [field.name for field in dataclasses.fields(OutcomeEstimate)]
    return OutcomeEstimate(**{name: wilson(int(hit), trials) for name, hit in zip(names, hits.tolist(), strict=True)})


_Inputs = tuple[Tensor, Tensor, Tensor]
"""The query, key and value of a batch of trials."""


def _regression(
    setting: SoftmaxRegression, trials: int, generator: torch.Generator
) -> Iterator[tuple[_Inputs, _Inputs, Tensor]]:
    """The trials of Definition 3.5: the query is x = 1, the keys are the rows of A, and the values the rows of y."""
    last = torch.eye(setting.m, dtype=torch.float64)
    for draws in regression_draws(setting.n, setting.m, trials, generator, shared_signs=True):
        query = torch.ones(len(draws.on_d1), 1, 1, dtype=torch.float64)
        y = draws.y[:, 0].double()
        yield (query, draws.on_d1.unsqueeze(-1), y), (query, draws.on_d0.unsqueeze(-1), y), last


def _attention(
    setting: AttentionSetting, trials: int, generator: torch.Generator
) -> Iterator[tuple[_Inputs, _Inputs, Tensor]]:
    """The trials of Definition C.6, with n x n attention, in batches of bounded memory."""
    weights = setting.weight_matrix()
    size = max(1, _BATCH_BYTES // (8 * setting.n**2))
    for start in range(0, trials, size):
        T = min(size, trials - start)
        elements = [setting.sample(generator) for _ in range(T)]
        y = random_signs((T, setting.d, setting.m), generator).double()
        d0, d1 = (
            (
                torch.stack([pair[which].A1 for pair in elements]) @ weights,
                torch.stack([pair[which].A2 for pair in elements]),
                torch.stack([pair[which].A3 for pair in elements]),
            )
            for which in (0, 1)
        )
        yield d1, d0, y


def _share(mask: NDArray[np.bool_]) -> Share:
    return int(np.count_nonzero(mask)), mask.size
