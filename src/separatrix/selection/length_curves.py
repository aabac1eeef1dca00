r"""Length generalisation: the ratio of the loss at T_2 tokens to the loss at T_1, where the transformer was trained.

For orthonormal encodings it has a closed form. Training at T_1 tends to alpha = 1 + w_1 where 1 - q s_+ = w_1; at T_2
the scale C is the same, so w_2 = x w_1 to first order with x = (T_2 - q)/(T_1 - q), while alpha still compensates for
w_1. With rho_i = q/(T_i - q), as w_1 falls

    L_{T_2} / L_{T_1}  ->  ((x - 1)^2 + rho_2 x^2) / rho_1,    about (T_1/q) (x - 1)^2 + x,

which is of order T_1/q at any fixed T_2/T_1 > 1. Corollary 3.6 of Wang, Wei, Hsu and Lee states O(T_2^2/T_1^2) instead.

For random encodings it is estimated: the state (alpha, C) comes from the stochastic dynamics at T_1, and the losses
from encodings drawn at each length (`separatrix.selection.fixed_evaluation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from separatrix.checks import whole
from separatrix.selection.arguments import seeded, sizes
from separatrix.selection.dynamics import Floats, population_loss
from separatrix.selection.fixed_evaluation import EncodingLosses, encoding_losses
from separatrix.selection.flow import population_flow
from separatrix.selection.overlap_table import overlap_table
from separatrix.selection.stochastic_dynamics import stochastic_dynamics


def limit_ratio(T1: int, T2: int, q: int) -> float:
    """The limit of L_{T_2} / L_{T_1} as the time of training at T_1 tends to infinity, for orthonormal encodings.

    Args:
        T1: the number of tokens of the training.
        T2: the other number of tokens.
        q: the number of tokens to average, below T1 and T2.

    Example:
        >>> round(limit_ratio(1000, 2000, 3)), limit_ratio(50, 50, 2)
        (336, 1.0)
    """
    T1, q, _ = sizes(T1, q)
    T2 = whole("T2", T2, low=q + 1)
    whole("q", q, low=1, high=T1 - 1)
    x = (T2 - q) / (T1 - q)
    return float(((x - 1) ** 2 + q / (T2 - q) * x**2) * (T1 - q) / q)


@dataclass(frozen=True)
class LengthCurve:
    """Population losses with orthonormal encodings during one training at T_1.

    Attributes:
        T1: the number of tokens of the training.
        lengths: the other numbers of tokens T_2.
        times: the times tau = eta t.
        trained: L_{T_1} at each time.
        losses: L_{T_2}, with a row for each time and a column for each length.
    """

    T1: int
    lengths: tuple[int, ...]
    times: Floats
    trained: Floats
    losses: Floats

    @property
    def ratios(self) -> Floats:
        """The ratios L_{T_2} / L_{T_1}, with a row for each time and a column for each length."""
        return self.losses / self.trained[:, None]


def length_curve(T1: int, lengths: Sequence[int], q: int, d: int, times: Sequence[float] | Floats) -> LengthCurve:
    """The losses at other lengths along training by equation (6), from zero at T_1.

    Args:
        T1: the number of tokens of the training.
        lengths: the other numbers of tokens T_2.
        q: the number of tokens to average.
        d: the dimension of a token.
        times: the ascending times tau = eta t.

    Example:
        >>> curve = length_curve(100, [100, 200], q=2, d=5, times=[1e4, 1e9])
        >>> [round(float(x), 3) for x in curve.ratios[:, 0]]
        [1.0, 1.0]
        >>> abs(float(curve.ratios[1, 1]) / limit_ratio(100, 200, 2) - 1) < 0.01
        True
    """
    run = population_flow(T1, q, d, times)
    losses = np.stack([population_loss(run.alpha, run.C, T, q, d) for T in lengths], 1)
    return LengthCurve(T1, tuple(lengths), np.asarray(times, np.float64), run.loss, losses)


@dataclass(frozen=True)
class SampledLengths:
    """Losses with random encodings, by length, at the state (alpha, C) that training at T_1 reached."""

    T1: int
    alpha: float
    C: float
    by_length: dict[int, EncodingLosses]


def stochastic_state(
    T: int,
    q: int,
    d: int,
    width: int,
    *,
    threshold: float,
    schedule: Sequence[tuple[int, float]],
    encodings: int,
    subsets: int,
    generator: torch.Generator | int,
) -> tuple[float, float]:
    """The state (alpha, C) after training with stochastic encodings, by the recursion for the mean of the loss.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        schedule: the (steps, rate) pairs of the training, one after the other.
        encodings: the number of encodings of the table that the recursion uses.
        subsets: the number of subsets for each of these encodings.
        generator: the source of randomness, or a seed.

    Example:
        >>> alpha, C = stochastic_state(10, 2, 3, 32, threshold=0.5, schedule=[(300, 1.0), (100, 0.3)], encodings=8,
        ...                             subsets=8, generator=0)
        >>> 0.5 < alpha < 2, C > 1
        (True, True)
    """
    table = overlap_table(
        T, q, width, threshold=threshold, encodings=encodings, subsets=subsets, generator=generator, spacing=0.125
    )
    state = (0.0, 0.0)
    for steps, rate in schedule:
        run = stochastic_dynamics(table, d, rate, steps, start=state)
        state = float(run.alpha[-1]), float(run.C[-1])
    return state


def sampled_lengths(
    state: tuple[float, float],
    T1: int,
    lengths: Sequence[int],
    q: int,
    d: int,
    width: int,
    *,
    threshold: float,
    encodings: int,
    subsets: int,
    generator: torch.Generator | int,
) -> SampledLengths:
    """The losses at T_1 and at other lengths, over random encodings drawn at each length.

    Args:
        state: (alpha, C).
        T1: the number of tokens of the training.
        lengths: the other numbers of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        encodings: the number of encodings at each length.
        subsets: the number of subsets for each encoding.
        generator: the source of randomness, or a seed.

    Example:
        >>> drawn = {"threshold": 0.6, "encodings": 4, "subsets": 16, "generator": 0}
        >>> curves = sampled_lengths((1.05, 5.0), 10, [20], 2, 3, 32, **drawn)
        >>> curves.by_length[20].mean > curves.by_length[10].mean
        True
    """
    alpha, C = state
    source = seeded(generator)
    by_length = {
        T: encoding_losses(
            T,
            q,
            d,
            width,
            alpha=alpha,
            C=C,
            threshold=threshold,
            encodings=encodings,
            subsets=subsets,
            generator=source,
        )
        for T in dict.fromkeys((T1, *lengths))
    }
    return SampledLengths(T1, alpha, C, by_length)
