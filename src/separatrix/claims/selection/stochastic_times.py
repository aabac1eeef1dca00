"""Times to a loss with stochastic encodings, for sequences too long to draw encodings or to take single steps.

Two facts make this possible. At W = C W* the loss of the mean output (equation (4) of Wang, Wei, Hsu and Lee) depends
on the encodings through w(C) alone, the mean of 1 - q s_+, and that on the products of a subset's q encodings with all
others. For q = 2 random signs these products are exactly two binomial numbers for each position: with k agreements
between e_1 and e_2 among n entries, A of them and B of the other n - k agree with e_i,

    <e_i, e_1> = (2A - k + 2B - (n - k)) / n,    <e_i, e_2> = (2A - k - 2B + (n - k)) / n.

Products beyond the threshold are drawn again, as encodings with them are not valid. The condition that the other
positions must also fit each other is omitted: Theorem 3.3 compares these times with those of whole encodings, nine in
ten of whose candidates do not fit. Descent at a small rate is an ordinary differential equation in eta t, which an
implicit method integrates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from separatrix.errors import SeparatrixError
from separatrix.selection.dynamics import Floats
from separatrix.selection.overlap_table import attention_means

_LARGEST_C, _POINTS, _AT_ONCE = 16.0, 257, 4
Weights = tuple[Floats, Floats, Floats]
"""A grid of C, with w(C) and dw/dC."""


def _overlaps(T: int, width: int, threshold: float, source: np.random.Generator) -> Floats:
    """The overlaps <e_i, e_y> of T - 2 positions with the code of a subset of two, as drawn by the two binomials."""
    agree = width  # # repeat the draws with e_1 = e_2
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


def drawn_weights(T: int, width: int, *, threshold: float, subsets: int, seed: int) -> Weights:
    """The mean w(C) of 1 - q s_+ for subsets of two positions, on a grid of C: the grid, w and dw/dC.

    Args:
        T: the number of tokens.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        subsets: the number of subsets that are drawn, each with separately drawn encodings.
        seed: the seed of the random draws.

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


def _log_weight(weights: Weights) -> Callable[[float], tuple[float, float]]:
    """A function of C that returns w and d log w / dC, by cubic interpolation."""
    from scipy.interpolate import CubicHermiteSpline  # type: ignore[import-untyped]

    C, w, w_slope = weights
    log_w = CubicHermiteSpline(C, np.log(w), w_slope / w)
    log_slope = log_w.derivative()
    return lambda C: (math.exp(log_w(C)), float(log_slope(C)))


def mean_loss(weights: Weights, alpha: float, C: float, T: int, d: int) -> float:
    """The loss of the mean output (equation (4)) at V = alpha V*, W = C W*, for subsets of two positions.

    Args:
        weights: the result of `drawn_weights` for this T.
        alpha: the weight of V*.
        C: the weight of W*.
        T: the number of tokens.
        d: the dimension of a token.

    Example:
        >>> mean_loss(drawn_weights(10, 64, threshold=0.4, subsets=2, seed=0), 0.0, 3.0, 10, d=3)  # d / (2 q)
        0.75
    """
    beta, w = 1 - alpha, _log_weight(weights)(C)[0]
    return _loss(beta, w, T, d)


def _loss(beta: float, w: float, T: int, d: int) -> float:
    square = T / (T - 2) * w * w
    return d / 4 * (square + 2 * beta * (w - square) + beta * beta * (square + 1 - 2 * w))


def _slope(
    at: Callable[[float], tuple[float, float]], T: int, d: int, width: int
) -> Callable[[float, Floats], tuple[float, float]]:
    """The derivative of (1 - alpha, C) in eta t, for the integrator."""

    def slope(_: float, state: Floats) -> tuple[float, float]:
        beta, C = float(state[0]), float(state[1])
        w, relative = at(C)
        square, alpha = T / (T - 2) * w * w, 1 - beta
        gain = -d / (2 * width) * relative * (alpha * alpha * square + beta * alpha * w)
        return -(w - square + beta * (square + 1 - 2 * w)) / 2, gain

    return slope


def state_in_the_flow(weights: Weights, T: int, d: int, width: int, time: float) -> tuple[float, float]:
    """The values of alpha and C after a time eta t, by descent at a small rate from a zero start.

    Args:
        weights: the result of `drawn_weights`.
        T: the number of tokens.
        d: the dimension of a token.
        width: the dimension of an encoding.
        time: eta t.

    Raises:
        SeparatrixError: if the integration fails.
    """
    from scipy.integrate import solve_ivp  # type: ignore[import-untyped]

    moved = _slope(_log_weight(weights), T, d, width)
    solved = solve_ivp(moved, (0.0, time), (1.0, 0.0), method="Radau", rtol=1e-8, atol=1e-11)
    if not solved.success:
        raise SeparatrixError(f"state_in_the_flow: the integration stopped: {solved.message}")
    return 1 - float(solved.y[0, -1]), float(solved.y[1, -1])


def times_in_the_flow(weights: Weights, T: int, d: int, width: int, epsilons: Sequence[float]) -> list[float]:
    """The times eta t at which the loss of the mean falls to each epsilon, by descent at a small rate.

    Args:
        weights: the result of `drawn_weights`.
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
    from scipy.integrate import solve_ivp

    at = _log_weight(weights)

    class Reached:
        """An event of the integrator: the logarithm of the loss divided by one of the epsilons, which decreases through
        zero."""

        def __init__(self, epsilon: float) -> None:
            self.epsilon, self.terminal = epsilon, epsilon == epsilons[-1]

        def __call__(self, _: float, state: Floats) -> float:
            return math.log(_loss(float(state[0]), at(float(state[1]))[0], T, d) / self.epsilon)

    end = 100 * width * (T + 1 / epsilons[-1])
    solved = solve_ivp(
        _slope(at, T, d, width),
        (0.0, end),
        (1.0, 0.0),
        method="Radau",
        events=[Reached(e) for e in epsilons],
        rtol=1e-8,
        atol=1e-11,
    )
    if not solved.success or not all(map(len, solved.t_events)):
        raise SeparatrixError(f"times_in_the_flow: a loss of {epsilons[-1]} was not reached: {solved.message}")
    return [float(times[0]) for times in solved.t_events]
