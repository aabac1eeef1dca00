r"""The transformer of Theorem C.3 that solves the task without training, and how near it comes.

Take W = C W* and V = V*. With c = max_{i not in y} <e_i, e_y>, the weight that leaves the subset is

    1 - q s_+ <= (T - q) e^{-C (1 - c)} / q,    s_+ the weight of each position in y,

and the output misses the q-average by at most twice that times the longest token: once for what the subset lost, once
for what the others gained. So C = log(2 (T - q) / (q epsilon)) / (1 - c) makes the error at most epsilon max_i |x_i|.

The theorem (Wang, Wei, Hsu and Lee) prints C = ceil(2 log(2T) / epsilon), for c <= 1/2 and tokens in the unit ball;
that is enough for epsilon <= 1, and exponentially more than is needed. Its own last steps want 2 log(2T / epsilon).
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

__all__ = ["Construction", "construct", "overlaps"]


@dataclass(frozen=True)
class Construction:
    """A transformer with W = scale W* and V = V*, good to `epsilon` on the subsets it was made for."""

    transformer: SelectionTransformer
    E: Tensor
    epsilon: float
    scale: float
    overlap: float

    def error(self, X: Tensor, y: Tensor) -> Tensor:
        """|f(X, y) - STS_q(X, y)| for X (..., T, d) and y (..., q): (...)."""
        with torch.no_grad():
            distance: Tensor = (self.transformer(X, y, self.E) - subset_average(X, y)).norm(dim=-1)
        return distance

    def bound(self, X: Tensor, y: Tensor) -> Tensor:
        """What the error cannot exceed: 2 (T - q) e^{-C (1 - c)} / q max_i |x_i|, with c that of the subset."""
        T, q = X.shape[-2], y.shape[-1]
        c = overlaps(self.E, y).amax(-1) if q < T else self.E.new_zeros(y.shape[:-1])
        spill = 2 * (T - q) / q * torch.exp(-self.scale * (1 - c))
        longest: Tensor = X.norm(dim=-1).amax(-1)
        return spill * longest


def overlaps(E: Tensor, y: Tensor) -> Tensor:
    """<e_i, e_y> for the T - q positions outside y, ascending in i: E (T, width), y (..., q) -> (..., T - q).

    >>> overlaps(torch.eye(4), torch.tensor([1, 2])).tolist()
    [0.0, 0.0]
    """
    dots = subset_code(E, y) @ E.mT
    outside = torch.ones_like(dots, dtype=torch.bool).scatter(-1, y, False)
    return dots[outside].reshape(*y.shape[:-1], E.shape[0] - y.shape[-1])


def construct(E: Tensor, y: Tensor, d: int, *, epsilon: float) -> Construction:
    """The transformer that averages each of the subsets y (n, q) to within epsilon max_i |x_i|.

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
            f"construct: a position outside a subset has <e_i, e_y> = {overlap:.4g}, and no scale separates it from "
            "the subset unless that is below 1."
        )
    scale = max(0.0, math.log(max(2 * (T - q) / (q * epsilon), 1.0)) / (1 - overlap))
    transformer = SelectionTransformer(d, E.shape[1], dtype=E.dtype)
    transformer.set_ground_truth(scale)
    return Construction(transformer, E, epsilon, scale, overlap)
