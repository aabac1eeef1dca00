r"""The population dynamics with stochastic encodings (Theorems 3.3 and E.6), from a table of means over encodings.

From a zero start the symmetries of random signs keep V(t) = alpha(t) V* and W(t) = C(t) W* (Lemma E.7 of Wang, Wei, Hsu
and Lee). The loss on that plane is, with beta = 1 - alpha and the means w(C), r(C) of
`separatrix.selection.overlap_table`,

    2 L/d = r + 2 beta (w/q - r) + beta^2 (r + (1 - 2 w)/q),

and gradient descent uses the gradient in (alpha, C), divided by the squared norms d of V* and d_e = width of W*:

    alpha <- alpha - eta/d dL/dalpha,    C <- C - eta/width dL/dC.

There are two objectives. For the "mean of the loss", which training with one encoding per step minimises, r is that of
the table. For the "loss of the mean", equation (4), where the outputs are averaged over encodings before they are
squared, r = w^2 T/(q (T - q)). By Jensen's inequality the first is never below the second.

The stationary value of alpha at a C minimises the loss at that C. In the tail L decreases like e^{-2 mu C}, with alpha
at its stationary value, and L = width / (4 mu^2 eta t): the inverse loss grows linearly, by 4 mu^2 eta / width per
step.
"""

from __future__ import annotations

import math
from array import array
from typing import Literal

import numpy as np

from separatrix.checks import one_of, positive, whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.dynamics import Dynamics, Floats
from separatrix.selection.overlap_table import OverlapTable

Objective = Literal["mean of the loss", "loss of the mean"]
OBJECTIVES: tuple[Objective, ...] = ("mean of the loss", "loss of the mean")


def stochastic_dynamics(
    table: OverlapTable,
    d: int,
    lr: float,
    steps: int,
    *,
    objective: Objective = "mean of the loss",
    start: tuple[float, float] = (0.0, 0.0),
) -> Dynamics:
    """The states alpha(t), C(t) and the loss for t = 0, ..., steps; log w and log r are interpolated by cubics in C.

    Args:
        table: the means over encodings.
        d: the dimension of a token.
        lr: the learning rate eta.
        steps: the number of steps.
        objective: which loss is minimised.
        start: (alpha, C) at t = 0.

    Raises:
        SeparatrixError: if C leaves the range of the table.

    Example:
        >>> from separatrix.selection.overlap_table import overlap_table
        >>> table = overlap_table(10, 2, 32, threshold=0.5, encodings=8, subsets=4, generator=0)
        >>> run = stochastic_dynamics(table, d=3, lr=0.1, steps=100)
        >>> float(run.loss[0]), bool((np.diff(run.loss) < 0).all())
        (0.75, True)
    """
    d, steps = whole("d", d, low=1), whole("steps", steps, low=0)
    q, exp = table.q, math.exp
    cells_w, cells_r = (cells.tolist() for cells in _cells(table, objective))
    per_cell, last = 1 / float(table.C[1]), len(cells_w)
    rate_beta, rate_C = positive("lr", lr) / q, lr * d / (2 * table.width * q)
    beta, C = 1.0 - start[0], start[1]
    betas, Cs = array("d", [beta]), array("d", [C])
    for t in range(steps):
        place = C * per_cell
        cell = int(place)
        if not 0 <= place < last:
            raise SeparatrixError(
                f"stochastic_dynamics: C = {C:.4g} left the table, which ends at {table.C[-1]:.4g}, at step {t}; make "
                "one with a larger largest_C, or a smaller lr if the run diverged."
            )
        h = place - cell
        a0, a1, a2, a3 = cells_w[cell]
        b0, b1, b2, b3 = cells_r[cell]
        w = exp(a0 + h * (a1 + h * (a2 + h * a3)))
        qr = exp(b0 + h * (b1 + h * (b2 + h * b3)))
        w_slope = w * per_cell * (a1 + h * (2.0 * a2 + 3.0 * h * a3))
        qr_slope = qr * per_cell * (b1 + h * (2.0 * b2 + 3.0 * h * b3))
        alpha = 1.0 - beta
        C -= rate_C * (alpha * alpha * qr_slope + 2.0 * beta * alpha * w_slope)
        beta -= rate_beta * (w - qr + beta * (qr + 1.0 - 2.0 * w))
        betas.append(beta)
        Cs.append(C)
    b, c = np.frombuffer(betas), np.frombuffer(Cs)
    return Dynamics(1.0 - b, c.copy(), _loss(table, b, c, d, objective))


def stochastic_loss(table: OverlapTable, alpha: Floats, C: Floats, d: int, *, objective: Objective) -> Floats:
    """The loss at V = alpha V*, W = C W* for one of the objectives.

    Args:
        table: the means over encodings.
        alpha: values of alpha.
        C: values of C, of the same shape, within the range of the table.
        d: the dimension of a token.
        objective: which loss to return.

    Example:
        >>> from separatrix.selection.overlap_table import overlap_table
        >>> table = overlap_table(10, 2, 32, threshold=0.5, encodings=8, subsets=4, generator=0)
        >>> at = np.array([1.2]), np.array([3.0])
        >>> mean, of_mean = (float(stochastic_loss(table, *at, 3, objective=name)[0]) for name in OBJECTIVES)
        >>> mean > of_mean
        True
    """
    return _loss(table, 1.0 - np.asarray(alpha, np.float64), np.asarray(C, np.float64), d, objective)


def stationary_loss(table: OverlapTable, C: Floats, d: int, *, objective: Objective) -> tuple[Floats, Floats]:
    """The loss L and its rate mu at each C, where alpha minimises the loss at that C.

    L = d/2 (r - m^2/p) with m = w/q - r and p = r + (1 - 2w)/q, and mu = -d log L / (2 dC), which determines the slope
    4 mu^2 eta/width of the inverse loss.

    Args:
        table: the means over encodings.
        C: values of C within the range of the table.
        d: the dimension of a token.
        objective: which loss to return.
    """
    w, w_slope, r, r_slope = _interpolated(table, np.asarray(C, np.float64), objective)
    q = table.q
    m, p = w / q - r, r + (1 - 2 * w) / q
    loss = d / 2 * (r - m**2 / p)
    m_slope, p_slope = w_slope / q - r_slope, r_slope - 2 * w_slope / q
    slope = d / 2 * (r_slope - 2 * m * m_slope / p + m**2 * p_slope / p**2)
    return loss, -slope / (2 * loss)


def _loss(table: OverlapTable, beta: Floats, C: Floats, d: int, objective: Objective) -> Floats:
    w, _, r, _ = _interpolated(table, C, objective)
    q = table.q
    return d / 2 * (r + 2 * beta * (w / q - r) + beta**2 * (r + (1 - 2 * w) / q))


def _interpolated(table: OverlapTable, C: Floats, objective: Objective) -> tuple[Floats, Floats, Floats, Floats]:
    """The values w, dw/dC, r, dr/dC at each C within the range of the table."""
    place = C / table.C[1]
    if (place < 0).any() or (place > len(table.C) - 1).any():
        raise ArgumentError("C", expected=f"numbers from 0 to {table.C[-1]:.4g}, the table's end", got=C)
    cell = np.minimum(place.astype(np.int64), len(table.C) - 2)
    h = (place - cell)[..., None]
    values = []
    for cells in _cells(table, objective):
        a0, a1, a2, a3 = np.moveaxis(cells[cell][..., None], -2, 0)
        value = np.exp(a0 + h * (a1 + h * (a2 + h * a3)))
        slope = value * (a1 + h * (2 * a2 + 3 * h * a3)) / table.C[1]
        values += [value[..., 0], slope[..., 0]]
    w, w_slope, qr, qr_slope = values
    return w, w_slope, qr / table.q, qr_slope / table.q


def _cells(table: OverlapTable, objective: Objective) -> tuple[Floats, Floats]:
    """The coefficients of the cubics for log w and log(q r) in each interval of the grid, from the ends' slopes."""
    one_of("objective", objective, OBJECTIVES)
    log_w, log_w_slope = np.log(table.w), table.w_slope / table.w
    if objective == "mean of the loss":
        log_qr, log_qr_slope = np.log(table.q * table.r), table.r_slope / table.r
    else:
        log_qr, log_qr_slope = np.log(table.T / (table.T - table.q)) + 2 * log_w, 2 * log_w_slope
    return _hermite(log_w, log_w_slope * table.C[1]), _hermite(log_qr, log_qr_slope * table.C[1])


def _hermite(value: Floats, slope: Floats) -> Floats:
    rise = np.diff(value)
    left, right = slope[:-1], slope[1:]
    return np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise], 1)
