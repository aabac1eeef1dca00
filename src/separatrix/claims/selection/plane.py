"""The plane that gradient descent stays on, and the population gradient there, by autograd.

Means over Gaussian tokens are replaced by means over 2 T d matrices, +- sqrt(T d) at one entry and zero elsewhere: they
have the same first three moments, and on the plane the loss is quadratic in X and its gradient at most cubic. So
autograd through the definition, over these matrices and all subsets, gives the population gradient exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.claims.selection.valid_encodings import three_moments
from separatrix.selection.task import all_subsets, subset_average
from separatrix.selection.transformer import SelectionTransformer, selection_loss

TIGHT = 1e-12


def plane(T: int, d: int, alpha: float, C: float) -> tuple[Tensor, Tensor]:
    """W and V of Lemma D.5: C (I - 1 1^T / T) on positions, alpha I on tokens."""
    W = torch.zeros(d + T, d + T, dtype=torch.float64)
    W[d:, d:] = C * (torch.eye(T, dtype=torch.float64) - 1 / T)
    return W, alpha * torch.eye(d, d + T, dtype=torch.float64)


def population(W: Tensor, V: Tensor, E: Tensor, q: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (loss, dL/dW, dL/dV) by autograd through the definition, over the matrices above and all subsets."""
    T, d = E.shape[0], V.shape[0]
    y = all_subsets(T, q)
    X = three_moments(T, d).repeat_interleave(len(y), 0)
    y = y.repeat(2 * T * d, 1)
    model = SelectionTransformer(d, E.shape[1], dtype=torch.float64)
    with torch.no_grad():
        model.W.copy_(W)
        model.V.copy_(V)
    loss = selection_loss(model(X, y, E), subset_average(X, y))
    loss.backward()
    assert model.W.grad is not None
    assert model.V.grad is not None
    return loss.detach(), model.W.grad, model.V.grad


SETTINGS = {"T q d": ((5, 1, 1), (6, 2, 2), (8, 3, 2)), "alpha C": ((0.3, 0.0), (1.4, 1.3), (0.9, 4.0))}
"""The sizes, and the points of the plane, at which its lemmas are checked."""
