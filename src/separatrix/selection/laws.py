r"""Laws for the time of training: the slow curve of the population dynamics, and the law that follows from it.

While C changes slowly, alpha relaxes at the rate p towards alpha* = s/p; the states with alpha = alpha* are the *slow
curve*. On it, with n = T/q, N = n - 1, x = q s, w = 1 - x and D = n x^2 - 2 x + 1 (so p = D/(T - q)), the loss and the
speed are

    L = d w^2 / (2 q D),    dx/dtau = d N x^3 w^3 / ((T - 1) q D^2),    tau = eta t,

and the time is an elementary integral:

    tau(x) = (T - 1) q / (d N) [ N^2/(2 w^2) - N^2/w - 2 N log w + 2 N log x + 1/x - 1/(2 x^2) ]  from x = q/T.

There are two phases. Leaving the plateau (reaching x of order 1/2) takes a time tau of about T^2/d, and then

    L = (T - 1) / (4 eta t) (1 + o(1)),    so    t(epsilon) = (T - 1) / (4 eta epsilon) for epsilon well below d/(2T):

the tail depends on neither d nor q. Theorem 3.1 of Wang, Wei, Hsu and Lee bounds the time by T^2 d / (eta epsilon), up
to logarithms, which is larger than the law by a factor of order T d. The derivation is in
docs/derivations/selection-dynamics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from separatrix.checks import positive, whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import sizes
from separatrix.selection.dynamics import time_to_loss

BOUND_EXPONENTS: Mapping[str, float] = {"T": 2.0, "d": 1.0, "epsilon": -1.0, "lr": -1.0}
"""The powers in the bound T^2 d / (eta epsilon) of Theorem 3.1."""


def broken_hypotheses(T: int, q: int, d: int, eta: float, epsilon: float | None = None) -> dict[str, str]:
    """The hypotheses of Theorem 3.1 that do not hold: a sentence for each, keyed by the name of the violating value.

    Args:
        T: The number of tokens.
        q: The size of the subsets.
        d: The dimension of a token.
        eta: The learning rate.
        epsilon: The loss to be reached; None leaves out the hypothesis about it.

    Example:
        >>> broken_hypotheses(T=32, q=2, d=2, eta=1 / 80, epsilon=2e-3)
        {}
        >>> broken_hypotheses(T=32, q=2, d=2, eta=0.1)
        {'eta': 'Theorem 3.1 requires eta <= 1/(20 d^2) = 0.0125.'}
    """
    sizes = {}
    if not 2 <= q < T / 4:
        sizes["q"] = f"Theorem 3.1 requires 2 <= q < T/4 = {T / 4:g}."
    if eta > 1 / (20 * d**2):
        sizes["eta"] = f"Theorem 3.1 requires eta <= 1/(20 d^2) = {1 / (20 * d**2):.3g}."
    if epsilon is not None and q < T and epsilon >= (most := d * T / (100 * (T - q) * q)):
        sizes["epsilon"] = f"Theorem 3.1 requires epsilon < d T / (100 (T - q) q) = {most:.3g}."
    return sizes


def steps_allowed(T: int, d: int, lr: float, epsilon: float) -> float:
    """The number of steps to a loss epsilon by Theorem 3.1, T^2 d / (eta epsilon), without logarithms.

    >>> steps_allowed(T=10, d=2, lr=0.5, epsilon=0.1)
    4000.0
    """
    return T**2 * d / (lr * epsilon)


def loss_allowed(T: int, d: int, lr: float, steps: float) -> float:
    """The bound of Theorem 3.1 on the loss after a number of steps, T^2 d / (eta t), without logarithms.

    >>> loss_allowed(T=10, d=2, lr=0.5, steps=4000)
    0.1
    """
    return T**2 * d / (lr * steps)


def tail_constant(T: int, lr: float) -> float:
    """The limit of t times the loss: (T - 1) / (4 eta).

    >>> tail_constant(201, 0.5)
    100.0
    """
    return (sizes(T, 1)[0] - 1) / (4 * positive("lr", lr))


def slow_curve_loss(x: float, T: int, q: int, d: int) -> float:
    """The loss L = d w^2/(2 q D) on the slow curve where the attention on the subset is x = q s."""
    n = T / q
    return d * (1 - x) ** 2 / (2 * q * (n * x**2 - 2 * x + 1))


def slow_curve_alpha(x: float, T: int, q: int) -> float:
    """alpha* = N x/D, towards which alpha relaxes if the subset has the attention x.

    >>> slow_curve_alpha(2 / 50, T=50, q=2)
    1.0
    """
    n = T / q
    return (n - 1) * x / (n * x**2 - 2 * x + 1)


def slow_curve_C(x: float, T: int, q: int) -> float:
    """C = log(N x/w), the weight of the encodings at which the subset has the attention x.

    >>> slow_curve_C(0.5, T=12, q=4) == math.log(2)
    True
    """
    return math.log(x * (T / q - 1) / (1 - x))


def slow_curve_time(x: float, T: int, q: int, d: int) -> float:
    """The time tau = eta t at which the attention on the subset is x on the slow curve, from the start x = q/T.

    Args:
        x: the attention q s on the subset, at least q/T and below 1.
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.

    Example:
        >>> slow_curve_time(2 / 50, T=50, q=2, d=3)
        0.0
    """
    T, q, d = sizes(T, q, d)
    if not q / T <= x < 1:
        raise ArgumentError("x", expected=f"a number from q/T = {q / T:.6g} to below 1", got=x)
    N = T / q - 1

    def integral(x: float) -> float:
        w = 1 - x
        return N**2 / (2 * w**2) - N**2 / w + 2 * N * math.log(x / w) + 1 / x - 1 / (2 * x**2)

    return (T - 1) * q / (d * N) * (integral(x) - integral(q / T))


@dataclass(frozen=True)
class SlowCurve:
    """A point of the slow curve: the weight alpha of the value matrix, the weight C of the encodings, and the loss."""

    alpha: float
    C: float
    loss: float


def slow_curve_after(steps: float, T: int, q: int, d: int, lr: float) -> SlowCurve:
    """The point of the slow curve that training reaches after a number of steps, which may be too large to run.

    The recursion lies on the slow curve once alpha has risen, from about T/eta steps on.

    Args:
        steps: the number of steps t, with eta t at least T.
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        lr: the learning rate eta.

    Example:
        >>> point = slow_curve_after(10**9, T=20, q=2, d=2, lr=0.0125)
        >>> round(point.loss / (tail_constant(20, 0.0125) / 10**9), 2)
        1.0
    """
    T, q, d = sizes(T, q, d)
    tau = positive("steps", steps) * positive("lr", lr)
    if tau < T:
        raise ArgumentError("steps", expected=f"at least T / eta = {T / lr:.6g}", got=steps)
    low, high = math.log(1e-12), math.log(1 - q / T)  # the range of log w, w = 1 - x: the time falls as w grows
    while low < (middle := (low + high) / 2) < high:  # until no float is left between them
        later = slow_curve_time(1 - math.exp(middle), T, q, d) > tau
        low, high = (middle, high) if later else (low, middle)
    x = 1 - math.exp(high)
    return SlowCurve(slow_curve_alpha(x, T, q), slow_curve_C(x, T, q), slow_curve_loss(x, T, q, d))


def plateau_time(T: int, q: int, d: int) -> float:
    """The time tau = eta t at which the attention on the subset is 1/2: close to T^2/d when T is large.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.

    Example:
        >>> round(plateau_time(10_000, 3, 5) / (10_000**2 / 5), 2)
        1.0
    """
    return slow_curve_time(0.5, T, q, d)


def time_law(T: int, q: int, d: int, lr: float, epsilon: float) -> float:
    """The number of steps t(epsilon) to the loss epsilon on the slow curve.

    The x with L = epsilon solves a quadratic equation, and the integral gives its time. The rise of alpha from zero,
    which takes a time tau of order T, is omitted; it is a share of order d/T of the time on the plateau.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        lr: the learning rate eta.
        epsilon: the loss to reach, below that on the plateau.

    Example:
        >>> law = time_law(T=400, q=3, d=2, lr=0.01, epsilon=1e-5)
        >>> round(law / ((400 - 1) / (4 * 0.01 * 1e-5)), 2)
        1.0
    """
    T, q, d = sizes(T, q, d)
    if positive("epsilon", epsilon) >= (plateau := slow_curve_loss(q / T, T, q, d)):
        raise ArgumentError("epsilon", expected=f"less than {plateau:.4g}, the loss on the plateau", got=epsilon)
    N, e = T / q - 1, 2 * q * epsilon
    # d w^2 = e D with D = N (1 - 2w) + (N + 1) w^2, a quadratic in w.
    a, b, c = d - e * (N + 1), 2 * e * N, -e * N
    w = 2 * -c / (b + math.sqrt(b * b - 4 * a * c))
    return slow_curve_time(1 - w, T, q, d) / positive("lr", lr)


def stochastic_time_law(T: int, q: int, d: int, width: int, lr: float, epsilon: float) -> float:
    r"""The number of steps to the loss epsilon with stochastic encodings of dimension d_e, in the limit of large d_e.

    The limit is at fixed T, q, d and epsilon, and for gradient flow, which descent follows where the learning rate is
    small. At d_e = K log T, the regime of Theorem 3.3, times are longer by 3 to 7 percent for K = 60 and by about 1
    percent for K = 300, as measured for T from 64 to 4096.

    With N = T/q - 1, x = q s and C = log(N x/w) where the loss is epsilon, the number of steps is exactly

        (d_e/eta) [ T/(2 d) + 1/(4 epsilon) + (q/d) (2 C - 1 - ((1/x - 1)^2 + 1)/(2 N)) ].

    The last term is of lower order: it is at most 2 q C/d, and C is a logarithm of T and epsilon.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        width: the dimension d_e of an encoding.
        lr: the learning rate eta.
        epsilon: the loss to reach, below that on the plateau.

    Example:
        >>> law = stochastic_time_law(T=10_000, q=2, d=5, width=1000, lr=0.5, epsilon=1e-4)
        >>> round(law / (1000 * (10_000 / (2 * 5) + 1 / (4 * 1e-4)) / 0.5), 3)
        1.002
    """
    return time_law(T, q, d, lr, epsilon) * whole("width", width, low=1) / (T - 1)


@dataclass(frozen=True)
class Exponent:
    """The exponent of one variable in the time to reach a loss.

    Attributes:
        variable: the name of the variable.
        values: the values of the variable.
        times: the numbers of steps at these values, by the recursion.
        measured: the exponent fitted to these times.
        law: the exponent fitted to `time_law` at these values.
        bound: the exponent in the bound of Theorem 3.1.
    """

    variable: str
    values: tuple[float, ...]
    times: tuple[int, ...]
    measured: float
    law: float
    bound: float


def fitted_exponents(
    base: Mapping[str, float], sweeps: Mapping[str, Sequence[float]], *, max_steps: int = 10**8
) -> list[Exponent]:
    """Fit the exponents of several variables by least squares of log t(epsilon) on the logarithm of the variable.

    Args:
        base: the values of T, q, d, lr and epsilon while another variable changes.
        sweeps: the values of each variable, which may be T, d, lr or epsilon.
        max_steps: the most steps to try.

    Example:
        >>> base = {"T": 16, "q": 2, "d": 2, "lr": 0.0125, "epsilon": 0.001}
        >>> [fit] = fitted_exponents(base, {"epsilon": [0.002, 0.001]})
        >>> -1.1 < fit.measured < -0.9, fit.bound
        (True, -1.0)
    """
    fits = []
    for variable, values in sweeps.items():
        if variable not in BOUND_EXPONENTS:
            raise ArgumentError("sweeps", expected=f"variables among {sorted(BOUND_EXPONENTS)}", got=variable)
        settings = [{**base, variable: value} for value in values]
        times = [_call(time_to_loss, setting, max_steps=max_steps) for setting in settings]
        laws = [_call(time_law, setting) for setting in settings]
        fits.append(
            Exponent(
                variable,
                tuple(values),
                tuple(times),
                _slope(values, times),
                _slope(values, laws),
                BOUND_EXPONENTS[variable],
            )
        )
    return fits


def _call(function: Callable[..., Any], setting: Mapping[str, float], **extra: int) -> Any:
    T, q, d = int(setting["T"]), int(setting["q"]), int(setting["d"])
    return function(T, q, d, setting["lr"], setting["epsilon"], **extra)


def _slope(values: Sequence[float], times: Sequence[float]) -> float:
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])
