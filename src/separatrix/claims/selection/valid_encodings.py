"""Every valid encoding at T = width = 4, so that means over encodings are exact.

There are 26,880 sign matrices whose pairs have |<e_i, e_j>| <= 1/2. The threshold stands for the restricted isometry
that Lemmas E.2 to E.14 of Wang, Wei, Hsu and Lee condition on: all that they use of it is that flips, exchanges of
coordinates and exchanges of positions keep it, and a bound on the overlaps.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

T, Q, WIDTH, D = 4, 2, 4, 2


TIGHT = 1e-12


def valid_encodings() -> Tensor:
    """Every sign matrix of four positions and width 4 with |<e_i, e_j>| <= 1/2: (26880, 4, 4)."""
    rows = torch.tensor(list(itertools.product([-0.5, 0.5], repeat=WIDTH)), dtype=torch.float64)
    stack = rows[torch.tensor(list(itertools.product(range(len(rows)), repeat=T)))]
    gram = stack @ stack.mT - torch.eye(T, dtype=torch.float64)
    return stack[gram.abs().amax((1, 2)) <= 0.5]


def codes(stack: Tensor, subset: Tensor) -> Tensor:
    """e_y of one subset for each encoding of a stack (n, T, width): (n, width)."""
    E_y = stack[:, subset].mT
    ones = torch.ones(len(stack), len(subset), 1, dtype=stack.dtype)
    code: Tensor = (E_y @ torch.linalg.solve(E_y.mT @ E_y, ones)).squeeze(2)
    return code
