r"""The transformer of Theorem C.3 that solves the task without training, and a bound on its error.

Take W = C W* and V = V*. With c = max_{i not in y} <e_i, e_y>, the attention outside the subset is

    1 - q s_+ <= (T - q) e^{-C (1 - c)} / q,    s_+ the weight of each position in y,

and the output differs from the average over the subset by at most twice that times the norm of the longest token: once
for the weight that the subset lacks, and once for the weight of the other positions. So C = log(2 (T - q) / (q
epsilon)) / (1 - c) makes the error at most epsilon max_i |x_i|.

The theorem (Wang, Wei, Hsu and Lee) prints C = ceil(2 log(2T) / epsilon), for c <= 1/2 and tokens in the unit ball;
that is enough for epsilon <= 1, and exponentially larger than necessary. The last steps of its proof need 2 log(2T /
epsilon).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import positive
from separatrix.errors import SeparatrixError
from separatrix.selection.encodings import subset_code
from separatrix.selection.task import subset_average
from separatrix.selection.transformer import SelectionTransformer


@dataclass(frozen=True)
class Construction:
    """A transformer with W = scale W* and V = V*.

    Attributes:
        transformer: the transformer.
        E: the encoding, of shape (T, width).
        epsilon: on the subsets it was made for, the error is at most epsilon max_i |x_i|.
        scale: C.
        overlap: the largest <e_i, e_y> over those subsets y and the positions i outside them.
    """

    transformer: SelectionTransformer
    E: Tensor
    epsilon: float
    scale: float
    overlap: float

    def error(self, X: Tensor, y: Tensor) -> Tensor:
        """The error |f(X, y) - STS_q(X, y)|, of shape (...), for X (..., T, d) and y (..., q)."""
        with torch.no_grad():
            distance: Tensor = (self.transformer(X, y, self.E) - subset_average(X, y)).norm(dim=-1)
        return distance

    def bound(self, X: Tensor, y: Tensor) -> Tensor:
        """The bound 2 (T - q) e^{-C (1 - c)} / q max_i |x_i| on the error, with c = max_{i not in y} <e_i, e_y>."""
        T, q = X.shape[-2], y.shape[-1]
        c = overlaps(self.E, y).amax(-1) if q < T else self.E.new_zeros(y.shape[:-1])
        spill = 2 * (T - q) / q * torch.exp(-self.scale * (1 - c))
        longest: Tensor = X.norm(dim=-1).amax(-1)
        return spill * longest


def overlaps(E: Tensor, y: Tensor) -> Tensor:
    """The overlaps <e_i, e_y> of a subset's code with the T - q positions i outside the subset, ascending in i.

    Args:
        E: the encoding, of shape (T, width).
        y: the subsets, of shape (..., q).

    Returns:
        The overlaps, of shape (..., T - q).

    Example:
        >>> overlaps(torch.eye(4), torch.tensor([1, 2])).tolist()
        [0.0, 0.0]
    """
    dots = subset_code(E, y) @ E.mT
    outside = torch.ones_like(dots, dtype=torch.bool).scatter(-1, y, False)
    return dots[outside].reshape(*y.shape[:-1], E.shape[0] - y.shape[-1])


def construct(E: Tensor, y: Tensor, d: int, *, epsilon: float) -> Construction:
    """The transformer that averages the tokens of given subsets with an error of at most epsilon max_i |x_i|.

    Args:
        E: the encoding, of shape (T, width).
        y: the subsets, of shape (n, q).
        d: the dimension of a token.
        epsilon: the largest error, in units of the longest token.

    Raises:
        SeparatrixError: if a position outside a subset has an overlap of 1 or more with the subset's code.

    Example:
        >>> built = construct(torch.eye(6, dtype=torch.float64), torch.tensor([[0, 3]]), d=2, epsilon=1e-3)
        >>> X = torch.ones(1, 6, 2, dtype=torch.float64)
        >>> bool(built.error(X, torch.tensor([[1, 5]])) <= built.bound(X, torch.tensor([[1, 5]])) * (1 + 1e-9))
        True
    """
    T, q = E.shape[0], y.shape[-1]
    epsilon = positive("epsilon", epsilon)
    overlap = float(overlaps(E, y).max()) if q < T else 0.0
    if overlap >= 1:
        raise SeparatrixError(
            f"construct: a position outside a subset has <e_i, e_y> = {overlap:.4g}, which must be below 1 for a "
            "scale to separate it from the subset."
        )
    scale = max(0.0, math.log(max(2 * (T - q) / (q * epsilon), 1.0)) / (1 - overlap))
    transformer = SelectionTransformer(d, E.shape[1], dtype=E.dtype)
    transformer.set_ground_truth(scale)
    return Construction(transformer, E, epsilon, scale, overlap)
