r"""The means over random encodings that determine the stochastic dynamics, as functions of C, with standard errors.

At W = C W* the attention of a subset depends on an encoding only through its overlaps c_i = <e_i, e_y>, i outside y:

    o = (1/q) sum_i e^{-C (1 - c_i)},    w = 1 - q s_+ = o/(1 + o),    S_i = s_+ e^{-C (1 - c_i)}

Two means over valid encodings and subsets determine the population dynamics, with their derivatives in C:

    w(C) = E[1 - q s_+],    r(C) = E|Y/q - S|^2 = E[ (1 - q s_+)^2/q + sum_{i outside y} S_i^2 ].

The first is enough for equation (4), the loss of the mean output (its r is w^2 T/(q (T - q)), since the mean attention
is constant outside the subset). Training draws one encoding per step and thus minimises the mean of the loss, which
needs r as well. The mean of s_+ at a single C is not enough for either: the update of C has the mean of s_+ times an
overlap, which is the derivative of w. (The symbols are those of Wang, Wei, Hsu and Lee, Appendix E; w, r and o are
ours.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded, sizes
from separatrix.selection.construction import overlaps
from separatrix.selection.dynamics import Floats
from separatrix.selection.encodings import near_orthogonal_stack
from separatrix.selection.task import uniform_subsets


@dataclass(frozen=True)
class OverlapTable:
    """The means w(C), r(C) and their derivatives on an even grid of C from 0, each with its standard error.

    The standard errors count encodings as independent draws, and all subsets of an encoding as one draw.

    Attributes:
        T: the number of tokens.
        q: the number of tokens to average.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        encodings: the number of encodings.
        rejection_rate: the share of the candidates that the threshold rejected.
        C: the grid.
        w: w(C).
        w_slope: dw/dC.
        r: r(C).
        r_slope: dr/dC.
        w_se: the standard error of w.
        w_slope_se: the standard error of dw/dC.
        r_se: the standard error of r.
        r_slope_se: the standard error of dr/dC.
    """

    T: int
    q: int
    width: int
    threshold: float
    encodings: int
    rejection_rate: float
    C: Floats
    w: Floats
    w_slope: Floats
    r: Floats
    r_slope: Floats
    w_se: Floats
    w_slope_se: Floats
    r_se: Floats
    r_slope_se: Floats


def attention_means(c: Tensor, C: Tensor, q: int) -> Tensor:
    """The values w, dw/dC, r and dr/dC for one encoding, as means over its subsets.

    Args:
        c: the overlaps of each subset, of shape (m, T - q).
        C: the values of C, of shape (K,).
        q: the number of tokens to average.

    Returns:
        A tensor of shape (4, K).

    Example:
        >>> w, slope, r, _ = attention_means(torch.zeros(1, 3).double(), torch.tensor([0.0]).double(), q=1)
        >>> [round(x.item(), 9) for x in (w, slope, r)]  # uniform on T = 4: 1 - q/T, -(1 - q/T) q/T, 1/q - 1/T
        [0.75, -0.1875, 0.75]
    """
    distance = (1 - c).unsqueeze(1)
    decay = torch.exp(-C.unsqueeze(1) * distance)
    o = decay.sum(2) / q
    o_slope = -(distance * decay).sum(2) / q
    squares = decay.square()
    Q, Q_slope = squares.sum(2), -2 * (distance * squares).sum(2)
    w, w_slope = o / (1 + o), o_slope / (1 + o) ** 2
    s, s_slope = 1 / (q * (1 + o)), -w_slope / q
    r = w.square() / q + s.square() * Q
    r_slope = 2 * w * w_slope / q + 2 * s * s_slope * Q + s.square() * Q_slope
    return torch.stack([w, w_slope, r, r_slope]).mean(1)


def overlap_table(
    T: int,
    q: int,
    width: int,
    *,
    threshold: float,
    encodings: int,
    subsets: int,
    generator: torch.Generator | int,
    largest_C: float = 24.0,
    spacing: float = 0.0625,
) -> OverlapTable:
    """Estimate the table from random valid encodings and uniform subsets.

    Args:
        T: the number of tokens.
        q: the number of tokens to average, below T.
        width: the dimension of an encoding.
        threshold: the largest |<e_i, e_j>| of an encoding.
        encodings: the number of encodings, at least 2.
        subsets: the number of subsets for each encoding.
        generator: the source of randomness, or a seed.
        largest_C: the end of the grid.
        spacing: the distance of two points of the grid.

    Example:
        >>> table = overlap_table(6, 2, 16, threshold=0.5, encodings=4, subsets=3, generator=0, largest_C=1.0)
        >>> float(table.C[-1]), round(float(table.w[0]), 9), float(table.w_se[0])  # at C = 0 it is always 1 - q/T
        (1.0, 0.666666667, 0.0)
    """
    T, q, _ = sizes(T, q)
    whole("q", q, low=1, high=T - 1)
    encodings = whole("encodings", encodings, low=2)
    points = round(largest_C / spacing)
    if points < 1 or spacing <= 0:
        raise ArgumentError("largest_C", expected="at least one spacing", got=largest_C)
    C = torch.arange(points + 1, dtype=torch.float64) * spacing
    source = seeded(generator)
    drawn, candidates, rejected = [], 0, 0
    for _ in range(encodings):
        stack = near_orthogonal_stack(1, T, width, threshold=threshold, generator=source, dtype=torch.float64)
        candidates += stack.candidates
        rejected += stack.rejected
        drawn.append(attention_means(overlaps(stack.E[0], uniform_subsets(subsets, T, q, source)), C, q))
    means = torch.stack(drawn)
    columns = [np.asarray(row) for row in means.mean(0)]
    errors = [np.asarray(row) for row in means.std(0) / encodings**0.5]
    return OverlapTable(T, q, width, threshold, encodings, rejected / candidates, np.asarray(C), *columns, *errors)
