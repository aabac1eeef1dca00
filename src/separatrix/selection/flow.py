"""Equation (6): the population dynamics as an ordinary differential equation, in the time tau = eta t.

    d alpha/d tau = s - alpha p,    d C/d tau = d/(T - 1) alpha s (1 - q s) (1 - alpha + alpha T (1 - q s)/(T - q))

(Wang, Wei, Hsu and Lee write the same with eta on the right and t on the left.) The equation is stiff: alpha relaxes in
a time of order q while C changes ever more slowly, so an implicit method integrates it, to times that the recursion
cannot reach. The code computes with beta = 1 - alpha and w = 1 - q s like `separatrix.selection.dynamics`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.arguments import sizes
from separatrix.selection.dynamics import Dynamics, Floats, population_loss


def population_flow(T: int, q: int, d: int, times: Sequence[float] | Floats) -> Dynamics:
    """The solution alpha, C of equation (6) from alpha = C = 0, and its loss.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        times: the ascending times tau = eta t at which to evaluate it.

    Raises:
        SeparatrixError: if scipy is not installed, or the integration fails.

    Example:
        >>> run = population_flow(20, 2, 3, [0.0, 10.0, 1e6])
        >>> float(run.loss[0]), round(float(run.loss[2]) * 4 * 1e6 / 19, 2)  # d/(2q), and the tail (T - 1)/(4 tau)
        (0.75, 1.0)
    """
    try:
        from scipy.integrate import solve_ivp  # type: ignore[import-untyped]
    except ImportError as missing:
        raise SeparatrixError("population_flow needs scipy: install separatrix[lab].") from missing
    T, q, d = sizes(T, q, d)
    tau = np.asarray(times, np.float64)
    if tau.ndim != 1 or tau.size == 0 or tau[0] < 0 or (np.diff(tau) <= 0).any():
        raise ArgumentError("times", expected="ascending numbers >= 0", got=list(times))
    kappa, odds, rate = T / (T - q), (T - q) / q, d / ((T - 1) * q)

    def slope(_: float, state: Floats) -> tuple[float, float]:
        beta, C = float(state[0]), float(state[1])
        w = 1 / (1 + math.exp(C) / odds)
        m = w - kappa * w * w
        alpha = 1 - beta
        return -(m + beta * (1 - w - m)) / q, rate * w * (1 - w) * alpha * (beta + alpha * kappa * w)

    solved = solve_ivp(slope, (0.0, tau[-1]), (1.0, 0.0), method="Radau", t_eval=tau, rtol=1e-9, atol=1e-12)
    if not solved.success:
        raise SeparatrixError(f"population_flow: the integration stopped: {solved.message}")
    beta, C = solved.y
    return Dynamics(1 - beta, C, population_loss(1 - beta, C, T, q, d))
