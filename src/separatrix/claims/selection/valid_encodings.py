"""Every valid encoding at small sizes, so that means over encodings are exact.

There are 26,880 sign matrices of four positions and width 4 with |<e_i, e_j>| <= 1/2 for all pairs. The threshold takes
the place of the restricted isometry that Lemmas E.2 to E.14 of Wang, Wei, Hsu and Lee condition on. The lemmas use this
property only in two ways: it is invariant under flips, exchanges of coordinates and exchanges of positions, and it
bounds the overlaps.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import torch
from torch import Tensor

TIGHT = 1e-12
SIZES = ((3, 2, 4), (4, 1, 3), (4, 2, 3), (4, 3, 3))
"""Sizes (T, q, width), with subsets from one position to all but one."""
LARGEST = (4, 2, 4)
"""The size with 26,880 encodings, which is evaluated at one point."""
SMALL_OVERLAPS = ((4, 1, 3), (3, 2, 5), (4, 2, 5))
"""Sizes at which no overlap of a position with the code of a subset is above 1/3: up to 46,080 encodings."""
FIVE = (5, 2, 4)
"""Five positions, with 215,040 encodings, evaluated at one point."""


@cache
def valid_encodings(T: int, width: int) -> Tensor:
    """Return every sign matrix of T positions with |<e_i, e_j>| <= 1/2, of shape (number, T, width).

    >>> len(valid_encodings(4, 4)), len(valid_encodings(4, 3))
    (26880, 384)
    """
    rows = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=width)), dtype=torch.float64) / math.sqrt(width)
    if T == 1:
        return rows.unsqueeze(1)
    before = valid_encodings(T - 1, width)
    encoding, last = ((before @ rows.mT).abs().amax(1) <= 0.5 + 1e-9).nonzero(as_tuple=True)
    return torch.cat([before[encoding], rows[last].unsqueeze(1)], 1)


def codes(stack: Tensor, subset: Tensor) -> Tensor:
    """Return the code e_y of one subset for each encoding of a stack of shape (n, T, width), of shape (n, width)."""
    E_y = stack[:, subset].mT
    ones = torch.ones(len(stack), len(subset), 1, dtype=stack.dtype)
    code: Tensor = (E_y @ torch.linalg.solve(E_y.mT @ E_y, ones)).squeeze(2)
    return code


def attention(stack: Tensor, subset: Tensor, C: float) -> Tensor:
    """Return the attention at W = C W* for one subset and each encoding of a stack, of shape (n, T)."""
    return torch.softmax(C * (stack @ codes(stack, subset).unsqueeze(2)).squeeze(2), 1)


def three_moments(T: int, d: int) -> Tensor:
    """Return the 2 T d inputs, of shape (T, d), with +- sqrt(T d) at one entry and zeros elsewhere.

    Their first three moments are those of the Gaussian.
    """
    inputs = torch.eye(T * d, dtype=torch.float64).reshape(-1, T, d) * math.sqrt(T * d)
    return torch.cat([inputs, -inputs])


def loss_of_the_mean(
    stack: Tensor, subset: Tensor, X: Tensor, x_query: Tensor, W: Tensor, V: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the loss of equation (4) for one subset, with outputs averaged over a stack, and the attention.

    The attention has the shape (n, inputs, T). The loss is computed through the whole model, with every block of W and
    V.
    """
    U = torch.cat([x_query.expand(len(stack), -1), codes(stack, subset)], 1) @ W.mT
    d = len(x_query)
    logits = torch.einsum("nd,xtd->nxt", U[:, :d], X) + torch.einsum("nw,ntw->nt", U[:, d:], stack)[:, None]
    S = torch.softmax(logits, 2)
    pooled = torch.cat([torch.einsum("nxt,xtd->nxd", S, X), torch.einsum("nxt,ntw->nxw", S, stack)], 2).mean(0)
    return 0.5 * (X[:, subset].mean(1) - pooled @ V.mT).square().sum(1).mean(), S
