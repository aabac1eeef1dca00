"""The Monte Carlo of softmax regression (Definition 3.8): draws of data and signs, and the outputs of the networks on
them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.results import Simulation
from separatrix.separation.simulation import LARGEST_N, random_signs, tally

_BATCH_BYTES = 2**25


def simulate_regression(n: int, m: int, threshold: float, *, trials: int, seed: int, shared_signs: bool) -> Simulation:
    """Estimate the probabilities of softmax regression; for the arguments see `SoftmaxRegression.simulate`."""
    trials = whole("trials", trials, low=1)
    if n > LARGEST_N:
        raise ArgumentError("n", expected=f"at most {LARGEST_N} for a simulation in float64", got=n)
    generator = torch.Generator().manual_seed(whole("seed", seed, low=0))
    fired = []
    for draws in regression_draws(n, m, trials, generator, shared_signs=shared_signs):
        data = (draws.on_d1, draws.on_d0)
        f = torch.stack([row for Ax in data for row in (Ax.softmax(-1), Ax / Ax.sum(-1, keepdim=True))], 1)
        y = draws.y.double()
        projections = f @ y[:, 0] if shared_signs else (f[:, :, None] @ y).squeeze(2)
        fired.append((projections > threshold).any(-1))
    return tally(torch.cat(fired))


@dataclass(frozen=True)
class RegressionDraws:
    """A batch of T trials.

    Attributes:
        on_d1: Ax of the element of D1, of shape (T, n).
        on_d0: Ax of the element of D0, of shape (T, n).
        special: the special index of the element of D1, of shape (T,).
        y: the signs, of shape (T, 1, n, m) if the four networks share them, else (T, 4, n, m).
    """

    on_d1: Tensor
    on_d0: Tensor
    special: Tensor
    y: Tensor


def regression_draws(
    n: int, m: int, trials: int, generator: torch.Generator, *, shared_signs: bool
) -> Iterator[RegressionDraws]:
    """Draw the trials in batches of bounded memory, with (Ax)_i uniform in [log n, 1.4 log n] as in `datasets`."""
    networks = 1 if shared_signs else 4
    size = max(1, _BATCH_BYTES // (8 * n * (networks * m + 6)))
    for start in range(0, trials, size):
        T = min(size, trials - start)
        Ax = math.log(n) * (1 + 0.4 * torch.rand(2, T, n, generator=generator, dtype=torch.float64))
        special = torch.randint(0, n, (T,), generator=generator)
        Ax[0, torch.arange(T), special] = 4 * math.log(n)
        yield RegressionDraws(Ax[0], Ax[1], special, random_signs((T, networks, n, m), generator))
