r"""The loss of a trained transformer with given encodings, and its mean over random encodings; exact in the tokens.

In Appendix E.6 of Wang, Wei, Hsu and Lee a transformer is trained with stochastic encodings and then evaluated with one
fixed valid encoding. At V = alpha V* and W = C W* the loss of equation (3) with the encoding E is

    L(E) = d/2 E_y |Y/q - alpha S_y(E)|^2 = d/2 ( r_E + 2 beta (w_E/q - r_E) + beta^2 (r_E + (1 - 2 w_E)/q) )

with beta = 1 - alpha and the attention's means w_E = E_y[1 - q s_+], r_E = E_y|Y/q - S_y|^2 over subsets
(`separatrix.selection.overlap_table`). We compare it with two losses of the stochastic transformer: the *mean of the
loss*, E_E L(E), which training minimises; and the *loss of the mean*, equation (4), where the outputs are averaged over
encodings before they are squared, and r is w^2 T/(q (T - q)) with w the mean of w_E. By Jensen's inequality the second
loss is the smaller one, so that fixing one encoding multiplies the loss by their ratio on average, however well the
transformer is trained.
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


@dataclass(frozen=True)
class EncodingLosses:
    """Losses at one (alpha, C) over random valid encodings.

    The standard errors count encodings as independent draws.

    Attributes:
        by_encoding: L(E) of every encoding.
        mean: the mean of `by_encoding`: the mean of the loss.
        mean_se: the standard error of `mean`.
        of_mean: the loss of the mean, equation (4).
        of_mean_se: the standard error of `of_mean`: the slope of that loss in w times the standard error of w.
        rejection_rate: the share of the candidates that the threshold rejected.
    """

    by_encoding: Floats
    mean: float
    mean_se: float
    of_mean: float
    of_mean_se: float
    rejection_rate: float


def encoding_loss(E: Tensor, y: Tensor, alpha: float, C: float, d: int) -> float:
    """The loss L(E) of one encoding over given subsets.

    Args:
        E: the encoding, of shape (T, width), in float64.
        y: the subsets, of shape (m, q).
        alpha: V = alpha V*.
        C: W = C W*.
        d: the dimension of a token.

    Example:
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
    """The losses of random valid encodings, each over separately drawn uniform subsets.

    Args:
        T: the number of tokens.
        q: the number of tokens to average, below T.
        d: the dimension of a token.
        width: the dimension of an encoding.
        alpha: V = alpha V*.
        C: W = C W*.
        threshold: the largest |<e_i, e_j>| of an encoding.
        encodings: the number of encodings, at least 2.
        subsets: the number of subsets for each encoding.
        generator: the source of randomness, or a seed.

    Example:
        >>> drawn = {"threshold": 0.5, "encodings": 6, "subsets": 20, "generator": 0}
        >>> losses = encoding_losses(10, 2, 3, 32, alpha=1.1, C=4.0, **drawn)
        >>> len(losses.by_encoding), losses.of_mean < losses.mean
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
    losses = _loss(w, r, alpha, q, d)
    flat = T / (q * (T - q))
    of_mean, slope = _loss(w.mean(), flat * w.mean() ** 2, alpha, q, d), _mean_slope(w.mean(), flat, alpha, q, d)
    root = encodings**0.5
    return EncodingLosses(
        losses,
        float(losses.mean()),
        float(losses.std(ddof=1)) / root,
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
    """The derivative in w of the loss with r = flat w^2."""
    beta = 1 - alpha
    return d / 2 * (2 * flat * w * (1 - beta) ** 2 + 2 * beta * (1 - beta) / q)
