"""Times to a loss with stochastic encodings, for sequences so long that neither encodings nor steps can be made.

Two things make them cheap. At W = C W* the loss of the mean output (equation (4) of Wang, Wei, Hsu and Lee) depends on
the encodings through w(C) alone, the mean of 1 - q s_+, and that on the products of a subset's q encodings with all
others. For q = 2 random signs these products are exactly two binomial numbers for each position: with k agreements
between e_1 and e_2 among n entries, A of them and B of the other n - k agree with e_i,

    <e_i, e_1> = (2A - k + 2B - (n - k)) / n,    <e_i, e_2> = (2A - k - 2B + (n - k)) / n.

Products beyond the threshold are drawn again, as encodings with them are not valid. That the other positions must fit
each other too is left out: Theorem 3.3 compares its times with those of whole encodings, where nine of ten candidates
do not fit. And descent at a small rate is an ordinary differential equation in eta t, which an implicit method follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from separatrix.errors import SeparatrixError
from separatrix.selection.dynamics import Floats
from separatrix.selection.overlap_table import attention_means

__all__ = ["drawn_weights", "times_in_the_flow"]

_LARGEST_C, _POINTS, _AT_ONCE = 16.0, 257, 4


def _overlaps(T: int, width: int, threshold: float, source: np.random.Generator) -> Floats:
    """The overlaps <e_i, e_y> of T - 2 positions with the code of a subset of two, as drawn by the two binomials."""
    agree = width  # e_1 and e_2 alike, which is drawn again
    while abs(2 * agree - width) > threshold * width:
        agree = int(source.binomial(width, 0.5))
    kept: list[Floats] = []
    while sum(map(len, kept)) < T - 2:
        with_both = 2 * source.binomial(agree, 0.5, T) - agree
        with_one = 2 * source.binomial(width - agree, 0.5, T) - (width - agree)
        fits = np.maximum(abs(with_both + with_one), abs(with_both - with_one)) <= threshold * width
        kept.append(2 * with_both[fits] / width)
    # e_y is (e_1 + e_2) / (1 + <e_1, e_2>), and 1 + <e_1, e_2> = 2 k / n.
    return np.concatenate(kept)[: T - 2] / (2 * agree / width)


def drawn_weights(T: int, width: int, *, threshold: float, subsets: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """The mean w(C) of 1 - q s_+ for subsets of two positions, on a grid of C: the grid, w and dw/dC.

    Args:
        T: the number of tokens.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        subsets: how many subsets are drawn, each with encodings of its own.
        seed: of the draws.

    Example:
        >>> C, w, slope = drawn_weights(10, 64, threshold=0.4, subsets=2, seed=0)
        >>> round(float(w[0]), 9), bool((slope < 0).all())  # at C = 0 it is always 1 - q/T
        (0.8, True)
    """
    source = np.random.default_rng(seed)
    C = torch.linspace(0.0, _LARGEST_C, _POINTS, dtype=torch.float64)
    total = torch.zeros(2, _POINTS, dtype=torch.float64)
    for start in range(0, subsets, _AT_ONCE):
        count = min(_AT_ONCE, subsets - start)
        c = np.stack([_overlaps(T, width, threshold, source) for _ in range(count)])
        total += attention_means(torch.from_numpy(c), C, 2)[:2] * count
    w, slope = (total / subsets).numpy()
    return C.numpy(), w, slope


def times_in_the_flow(
    weights: tuple[Floats, Floats, Floats], T: int, d: int, width: int, epsilons: Sequence[float]
) -> list[float]:
    """The times eta t at which the loss of the mean is each epsilon, in descending order, by descent at a small rate.

    Args:
        weights: what `drawn_weights` gives.
        T: the number of tokens.
        d: the dimension of a token.
        width: the dimension of an encoding.
        epsilons: the losses to reach, the largest first.

    Raises:
        SeparatrixError: if the integration fails, or does not reach the last epsilon.

    Example:
        >>> weights = drawn_weights(16, 1024, threshold=0.1, subsets=8, seed=0)
        >>> first, second = times_in_the_flow(weights, 16, 2, 1024, [1e-3, 1e-4])
        >>> 9 < second / first < 10
        True
    """
    from scipy.integrate import solve_ivp  # type: ignore[import-untyped]
    from scipy.interpolate import CubicHermiteSpline  # type: ignore[import-untyped]

    C, w, w_slope = weights
    log_w = CubicHermiteSpline(C, np.log(w), w_slope / w)
    log_slope = log_w.derivative()
    q, kappa = 2, T / (T - 2)

    def at(C: float) -> tuple[float, float]:
        return math.exp(log_w(C)), float(log_slope(C))

    def moved(_: float, state: Floats) -> tuple[float, float]:
        beta, C = float(state[0]), float(state[1])
        w, relative = at(C)
        square, alpha = kappa * w * w, 1 - beta
        gain = -d / (2 * width * q) * relative * (2 * alpha * alpha * square + 2 * beta * alpha * w)
        return -(w - square + beta * (square + 1 - 2 * w)) / q, gain

    def loss(state: Floats) -> float:
        beta, C = float(state[0]), float(state[1])
        w = at(C)[0]
        square = kappa * w * w
        return d / (2 * q) * (square + 2 * beta * (w - square) + beta * beta * (square + 1 - 2 * w))

    class Reached:
        """An event of the integrator: the logarithm of the loss over one of the epsilons, which falls through zero."""

        def __init__(self, epsilon: float) -> None:
            self.epsilon, self.terminal = epsilon, epsilon == epsilons[-1]

        def __call__(self, _: float, state: Floats) -> float:
            return math.log(loss(state) / self.epsilon)

    end = 100 * width * (T + 1 / epsilons[-1])
    solved = solve_ivp(
        moved, (0.0, end), (1.0, 0.0), method="Radau", events=[Reached(e) for e in epsilons], rtol=1e-8, atol=1e-11
    )
    if not solved.success or not all(map(len, solved.t_events)):
        raise SeparatrixError(f"times_in_the_flow: a loss of {epsilons[-1]} was not reached: {solved.message}")
    return [float(times[0]) for times in solved.t_events]
