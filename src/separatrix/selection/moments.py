r"""The population loss of the whole matrices W and V, and its gradient, with exact expectations.

The mean over y is computed by enumeration. The mean over X consists of Gaussian moments, which have a closed form as
long as the attention does not depend on X, that is while the rows of W that act on tokens are zero: then the loss is
quadratic in X and its gradient cubic. With S the attention of a subset, J = diag(S) - S S^T, Y its indicator and
V = [V_x, V_e],

    2 L       = mean of  d/q - 2 tr(V_x) Y.S/q + |V_x|^2 |S|^2 + |V_e E S|^2
    dL/dV_x   = mean of  |S|^2 V_x - (Y.S/q) I                    dL/dV_e = mean of  V_e (E S)(E S)^T
    dL/dW_ee  = mean of -E J (tr(V_x) Y/q - |V_x|^2 S - E^T V_e^T V_e E S) e_y^T
    dL/dW_xe  = mean of  (tr(J) V_x^T V_e E S - V_e E J Y/q + V_x^T V_e E J S) e_y^T

(columns of E are encodings in these formulas, as in the paper; rows in the code). The first d columns of W are
multiplied by x_query = 0. Any encoding is allowed: with one-hot encodings the trajectory from zero is that of Lemma
D.5; fixed near-orthogonal encodings are the case that Wang, Wei, Hsu and Lee leave open.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.checks import positive, whole
from separatrix.errors import SeparatrixError
from separatrix.selection.encodings import subset_code
from separatrix.selection.task import all_subsets


def exact_gradient(W: Tensor, V: Tensor, E: Tensor, q: int) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of equation (3), dL/dW and dL/dV, in expectation over all q-subsets and all Gaussian X.

    Args:
        W: the matrix W, of shape (d + width, d + width), whose first d rows are zero in the columns of the encodings.
        V: the matrix V, of shape (d, d + width).
        E: the fixed encoding, of shape (T, width).
        q: the number of tokens to average.

    Raises:
        SeparatrixError: if the rows of W that act on tokens are not zero.

    Example:
        >>> E = torch.eye(4, dtype=torch.float64)
        >>> loss, dW, dV = exact_gradient(torch.zeros(6, 6).double(), torch.zeros(2, 6).double(), E, 2)
        >>> loss.item(), dV[:, :2].diagonal().tolist()  # d/(2q) and -1/T
        (0.5, [-0.25, -0.25])
    """
    T, d = E.shape[0], V.shape[0]
    if W[:d, d:].any():
        raise SeparatrixError(
            "exact_gradient: the rows of W that act on tokens are not zero, so the attention depends on X and its "
            "moments have no closed form."
        )
    y = all_subsets(T, q)
    n = len(y)
    codes = subset_code(E, y)
    S = torch.softmax(codes @ W[d:, d:].mT @ E.mT, 1)
    Y_over_q = torch.zeros_like(S).scatter(1, y, 1 / q)
    V_x, V_e = V[:, :d], V[:, d:]
    pooled = S @ E
    weight = (Y_over_q * S).sum(1)
    power = S.square().sum(1)
    output = pooled @ V_e.mT
    loss = 0.5 * (d / q - 2 * V_x.trace() * weight + V_x.square().sum() * power + output.square().sum(1)).mean()
    dV_x = power.mean() * V_x - weight.mean() * torch.eye(d, dtype=V.dtype)
    dV_e = V_e @ (pooled.mT @ pooled) / n

    def J(u: Tensor) -> Tensor:
        return S * (u - (S * u).sum(1, keepdim=True))

    pull = V_x.trace() * Y_over_q - V_x.square().sum() * S - output @ V_e @ E.mT
    dU_e = -J(pull) @ E
    trace_J = 1 - power
    dU_x = trace_J.unsqueeze(1) * (output @ V_x) - J(Y_over_q) @ E @ V_e.mT + J(S) @ E @ V_e.mT @ V_x
    dW = torch.zeros_like(W)
    dW[:, d:] = torch.cat([dU_x, dU_e], 1).mT @ codes / n
    return loss, dW, torch.cat([dV_x, dV_e], 1)


def exact_descent(E: Tensor, q: int, d: int, lr: float, steps: int) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """The matrices W(t), V(t) and the loss for t = 0, ..., steps, by gradient descent from zero on the exact loss.

    Args:
        E: the fixed encoding, of shape (T, width).
        q: the number of tokens to average.
        d: the dimension of a token.
        lr: the learning rate.
        steps: the number of steps.

    Example:
        >>> W, V, loss = exact_descent(torch.eye(5, dtype=torch.float64), q=2, d=1, lr=0.05, steps=2)
        >>> len(W), bool((loss.diff() < 0).all())
        (3, True)
    """
    width = E.shape[1]
    W = [torch.zeros(d + width, d + width, dtype=E.dtype)]
    V = [torch.zeros(d, d + width, dtype=E.dtype)]
    losses = []
    for _ in range(whole("steps", steps, low=0)):
        loss, dW, dV = exact_gradient(W[-1], V[-1], E, q)
        losses.append(loss)
        W.append(W[-1] - positive("lr", lr) * dW)
        V.append(V[-1] - lr * dV)
    losses.append(exact_gradient(W[-1], V[-1], E, q)[0])
    return W, V, torch.stack(losses)
