r"""Gradient descent on the population loss as a recursion for two numbers instead of two matrices.

With one-hot (or any orthonormal) encodings and a zero start, V(t) = alpha(t) V* and W(t) = C(t) times the projection
orthogonal to the constant vector (Lemma D.5 of Wang, Wei, Hsu and Lee), and gradient descent on equation (3) is

    alpha <- alpha + eta (s - alpha p)
    C     <- C + eta d/(T - 1) alpha s (1 - q s) (1 - alpha + alpha T (1 - q s)/(T - q))

with s = s_+ = 1/(q + (T - q) e^{-C}) the attention on each position of y and p = q s^2 + (1 - q s)^2/(T - q) the
squared norm of the attention. The loss (Lemma D.2) is d/2 (1/q - 2 alpha s + alpha^2 p). Both updates are gradients of
the loss, divided by the squared norms d of V* and T - 1 of the projection: docs/derivations/selection-dynamics.md has
the derivation.

Both alpha - 1 and 1 - q s tend to zero and the loss is quadratic in them, so the code computes with beta = 1 - alpha
and w = 1 - q s, which avoids cancellation in floating point: with kappa = T/(T - q),

    q (s - alpha p) = m + beta (1 - w - m),   m = w - kappa w^2
    2 q loss / d    = kappa w^2 + 2 beta m + beta^2 (1 - w - m)
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.checks import positive, whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.arguments import sizes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dynamics:
    """The states of training and their losses.

    Attributes:
        alpha: alpha at each of the steps or times.
        C: C at each of the steps or times.
        loss: the population loss at each of the steps or times.
    """

    alpha: Floats
    C: Floats
    loss: Floats


def population_dynamics(
    T: int, q: int, d: int, lr: float, steps: int, *, start: tuple[float, float] = (0.0, 0.0)
) -> Dynamics:
    """The states alpha(t), C(t) and the loss for t = 0, ..., steps, by the recursion.

    Args:
        T: the number of tokens.
        q: the number of tokens to average, below T.
        d: the dimension of a token.
        lr: the learning rate eta.
        steps: the number of steps.
        start: (alpha, C) at t = 0.

    Raises:
        SeparatrixError: if the learning rate is so large that the recursion diverges.

    Example:
        >>> run = population_dynamics(T=20, q=2, d=3, lr=0.005, steps=3)
        >>> [round(float(x), 9) for x in (run.alpha[1], run.C[1], run.loss[0])]  # eta/T, 0 and d/(2q)
        [0.00025, 0.0, 0.75]
    """
    T, q, d = _below(T, q, d)
    steps = whole("steps", steps, low=0)
    beta, C = 1.0 - start[0], start[1]
    betas, Cs = array("d", [beta]), array("d", [C])
    keep_beta, keep_C = betas.append, Cs.append
    # A plain loop over local floats makes two million steps a second; an array library is slower on two numbers.
    kappa, odds, exp = T / (T - q), (T - q) / q, math.exp
    rate_beta, rate_C = positive("lr", lr) / q, lr * d / ((T - 1) * q)
    with _overflow_is_divergence("population_dynamics", lr):
        for _ in range(steps):
            o = odds * exp(-C)
            w = o / (1.0 + o)
            alpha = 1.0 - beta
            u = kappa * w
            m = w - u * w
            C += rate_C * w * (1.0 - w) * alpha * (beta + alpha * u)
            beta -= rate_beta * (m + beta * (1.0 - w - m))
            keep_beta(beta)
            keep_C(C)
        if not math.isfinite(beta) or not math.isfinite(C):
            raise OverflowError
    b, c = np.frombuffer(betas), np.frombuffer(Cs)
    return Dynamics(1.0 - b, c.copy(), _loss(b, c, T, q, d))


def population_loss(alpha: ArrayLike, C: ArrayLike, T: int, q: int, d: int) -> Floats:
    """The population loss of Lemma D.2 at V = alpha V*, W = C W* with orthonormal encodings, for any T and q.

    Args:
        alpha: a number or an array.
        C: a number or an array of the same shape.
        T: the number of tokens, which need not be that of the training.
        q: the number of tokens to average, below T; it need not be that of the training.
        d: the dimension of a token.

    Example:
        >>> float(population_loss(0.0, 3.0, T=20, q=2, d=3)), float(population_loss(1.0, 60.0, T=20, q=2, d=3)) < 1e-49
        (0.75, True)
    """
    T, q, d = _below(T, q, d)
    return _loss(1.0 - np.asarray(alpha, np.float64), np.asarray(C, np.float64), T, q, d)


def _loss(beta: Floats, C: Floats, T: int, q: int, d: int) -> Floats:
    o = (T - q) / q * np.exp(-C)
    w = o / (1.0 + o)
    m = w - T / (T - q) * w**2
    return np.asarray(d / (2 * q) * (T / (T - q) * w**2 + 2 * beta * m + beta**2 * (1.0 - w - m)))


def time_to_loss(T: int, q: int, d: int, lr: float, epsilon: float, *, max_steps: int = 10**8) -> int:
    """The first step t of `population_dynamics` at which the loss is at most epsilon.

    Args:
        T: the number of tokens.
        q: the number of tokens to average, below T.
        d: the dimension of a token.
        lr: the learning rate eta.
        epsilon: the loss to reach.
        max_steps: the most steps to try.

    Raises:
        SeparatrixError: if the loss is still larger after `max_steps`, or if the recursion diverges.

    Example:
        >>> run = population_dynamics(T=20, q=2, d=3, lr=0.005, steps=50_000)
        >>> t = time_to_loss(T=20, q=2, d=3, lr=0.005, epsilon=0.05)
        >>> bool(run.loss[t - 1] > 0.05 >= run.loss[t])
        True
    """
    T, q, d = _below(T, q, d)
    target = positive("epsilon", epsilon) * 2 * q / d
    kappa, odds, exp = T / (T - q), (T - q) / q, math.exp
    rate_beta, rate_C = positive("lr", lr) / q, lr * d / ((T - 1) * q)
    beta, C = 1.0, 0.0
    with _overflow_is_divergence("time_to_loss", lr):
        for t in range(whole("max_steps", max_steps, low=0) + 1):
            o = odds * exp(-C)
            w = o / (1.0 + o)
            alpha = 1.0 - beta
            u = kappa * w
            m = w - u * w
            p = 1.0 - w - m
            if u * w + beta * (2.0 * m + beta * p) <= target:
                return t
            C += rate_C * w * (1.0 - w) * alpha * (beta + alpha * u)
            beta -= rate_beta * (m + beta * p)
    raise SeparatrixError(f"time_to_loss: the loss is still above {epsilon} after {max_steps} steps.")


@contextmanager
def _overflow_is_divergence(name: str, lr: float) -> Iterator[None]:
    try:
        yield
    except OverflowError:
        raise SeparatrixError(f"{name}: lr = {lr} diverges; Theorem 3.1 requires lr <= 1/(20 d^2).") from None


def _below(T: int, q: int, d: int) -> tuple[int, int, int]:
    T, q, d = sizes(T, q, d)
    if q == T:
        raise ArgumentError("q", expected=f"less than T = {T}", got=q, hypothesis="2 <= q < T/4 of Theorem 3.1")
    return T, q, d
