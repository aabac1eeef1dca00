r"""A trained transformer on given encodings: the loss of each, exact in the tokens, and of fresh ones in the mean.

Appendix E.6 of Wang, Wei, Hsu and Lee: train with stochastic encodings, then fix one valid encoding and evaluate with
that. At V = alpha V* and W = C W* the loss of equation (3) with the encoding E is

    L(E) = d/2 E_y |Y/q - alpha S_y(E)|^2 = d/2 ( r_E + 2 beta (w_E/q - r_E) + beta^2 (r_E + (1 - 2 w_E)/q) )

with beta = 1 - alpha and the attention's means w_E = E_y[1 - q s_+], r_E = E_y|Y/q - S_y|^2 over subsets
(`separatrix.selection.overlap_table`). Two losses of the stochastic transformer belong beside it: the *mean of the
loss*, E_E L(E), which training descends; and the *loss of the mean*, equation (4), where the outputs are averaged over
encodings before the square, and r is w^2 T/(q (T - q)) with w the mean of w_E. By Jensen the second is the smaller, so
that fixing one encoding costs their ratio on average, however well the transformer is trained.
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
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.overlap_table import attention_means
from separatrix.selection.task import uniform_subsets

__all__ = ["EncodingLosses", "encoding_loss", "encoding_losses"]


@dataclass(frozen=True)
class EncodingLosses:
    """Losses at one (alpha, C) over random valid encodings.

    each: L(E) of every encoding drawn. mean: of them, the mean of the loss. of_mean: the loss of the mean, equation
    (4). The _se are standard errors, which count the encodings as the independent draws; that of `of_mean` is its slope
    in w times the error of w. rejection_rate: the candidates that the threshold rejected.
    """

    each: Floats
    mean: float
    mean_se: float
    of_mean: float
    of_mean_se: float
    rejection_rate: float


def encoding_loss(E: Tensor, y: Tensor, alpha: float, C: float, d: int) -> float:
    """L(E) over the subsets y (m, q), for E (T, width) in float64.

    >>> E = torch.eye(4, dtype=torch.float64)
    >>> round(encoding_loss(E, torch.tensor([[0, 1]]), alpha=1.0, C=0.0, d=2), 9)  # d/2 (1/q - 1/T)
    0.25
    """
    w, r = _means(E, y, C)
    return float(_loss(w, r, alpha, y.shape[-1], d))


def encoding_losses(
    T: int,
    q: int,
    d: int,
    width: int,
    *,
    alpha: float,
    C: float,
    threshold: float,
    encodings: int,
    subsets: int,
    generator: torch.Generator | int,
) -> EncodingLosses:
    """The losses of `encodings` random valid encodings, each over the same number of uniform subsets of its own.

    >>> found = encoding_losses(10, 2, 3, 32, alpha=1.1, C=4.0, threshold=0.5, encodings=6, subsets=20, generator=0)
    >>> len(found.each), found.of_mean < found.mean
    (6, True)
    """
    T, q, d = sizes(T, q, d)
    whole("q", q, low=1, high=T - 1)
    encodings, subsets = whole("encodings", encodings, low=2), whole("subsets", subsets, low=1)
    source = seeded(generator)
    candidates, rows = 0, []
    for _ in range(encodings):
        drawn = near_orthogonal_encoding(T, width, threshold=threshold, generator=source, dtype=torch.float64)
        candidates += drawn.candidates
        rows.append(_means(drawn.E, uniform_subsets(subsets, T, q, source), C))
    w, r = np.array(rows).T
    each = _loss(w, r, alpha, q, d)
    flat = T / (q * (T - q))
    of_mean, slope = _loss(w.mean(), flat * w.mean() ** 2, alpha, q, d), _mean_slope(w.mean(), flat, alpha, q, d)
    root = encodings**0.5
    return EncodingLosses(
        each,
        float(each.mean()),
        float(each.std(ddof=1)) / root,
        float(of_mean),
        abs(slope) * float(w.std(ddof=1)) / root,
        1 - encodings * T / candidates,
    )


def _means(E: Tensor, y: Tensor, C: float) -> tuple[float, float]:
    if E.dtype != torch.float64:
        raise ArgumentError("E", expected="float64", got=str(E.dtype))
    w, _, r, _ = attention_means(overlaps(E, y), torch.tensor([C], dtype=torch.float64), y.shape[-1])
    return float(w), float(r)


def _loss(w: Floats | float, r: Floats | float, alpha: float, q: int, d: int) -> Floats:
    beta = 1 - alpha
    return np.asarray(d / 2 * (r + 2 * beta * (w / q - r) + beta**2 * (r + (1 - 2 * w) / q)))


def _mean_slope(w: float, flat: float, alpha: float, q: int, d: int) -> float:
    """d/dw of the loss with r = flat w^2."""
    beta = 1 - alpha
    return d / 2 * (2 * flat * w * (1 - beta) ** 2 + 2 * beta * (1 - beta) / q)
