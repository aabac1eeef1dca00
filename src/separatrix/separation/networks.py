r"""The two networks, softmax and linear: Definitions 3.5 and 3.6 (regression), C.6 and C.2 (attention).

    F(A; x, y)       = phi(sum_l phi_tau(<f(A, x), y_l>))                 f = normalised exp(Ax), or Ax itself
    F(A_1, A_2, A_3) = phi(sum_{j0} sum_l phi_tau(<c(A, x)_{j0}, y_l>))   c = attention with exp, or with lin

with phi_tau(z) = max(z - tau, 0) and phi = phi_0 (Definition 3.4). The attention is the library's own: its query is
A_1 Q K^T, its keys A_2, its values A_3 V with V = I, and its scale 1. In the regression the query is x, the keys are
the rows of A and the values the rows of y. Definition C.6 has y in R^{n x m}, but c(A, x)_{j0} is in R^d, so y must be
in R^{d x m}, as in Definition C.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.separation.datasets import AttentionInput, RegressionInput


def rectified(z: Tensor, tau: float) -> Tensor:
    """The network's output phi(sum phi_tau(z)) over all entries of z: positive exactly when some entry is above tau.

    >>> rectified(torch.tensor([[0.5, 1.0], [2.0, -3.0]]), tau=0.9).item()
    1.2000000476837158
    """
    return torch.relu(torch.relu(z - tau).sum())


def softmax_network(data: AttentionInput, weights: Tensor, y: Tensor, tau: float) -> Tensor:
    """The network F_exp of Definition C.6, evaluated on one element of a data set.

    Args:
        data: the element {A_1, A_2, A_3}.
        weights: Q K^T, of shape (d, d).
        y: the sign vectors, of shape (d, m).
        tau: the threshold.

    Example:
        >>> from separatrix.separation.datasets import cross_attention_input
        >>> data = cross_attention_input(6, 4, 3.0, special_query=0, special=5)
        >>> round(softmax_network(data, torch.eye(4).double(), torch.ones(4, 1).double(), tau=0.9).item(), 4)
        2.4107
    """
    return rectified(tensor_attention(data.A1 @ weights, data.A2, data.A3, scale=1.0) @ y, tau)


def linear_network(data: AttentionInput, weights: Tensor, y: Tensor, tau: float) -> Tensor:
    """The network F_lin of Definition C.2, evaluated on one element of a data set.

    Args:
        data: the element {A_1, A_2, A_3}.
        weights: Q K^T, of shape (d, d).
        y: the sign vectors, of shape (d, m).
        tau: the threshold.
    """
    return rectified(linear_attention(data.A1 @ weights, data.A2, data.A3) @ y, tau)


def softmax_regression(data: RegressionInput, y: Tensor, tau: float) -> Tensor:
    """The network F_exp of Definition 3.5, evaluated on (A, x), with sign vectors y of shape (n, m)."""
    return rectified(tensor_attention(data.x[None], data.A, y, scale=1.0), tau)


def linear_regression(data: RegressionInput, y: Tensor, tau: float) -> Tensor:
    """The network F_lin of Definition 3.6, evaluated on (A, x), with sign vectors y of shape (n, m)."""
    return rectified(linear_attention(data.x[None], data.A, y), tau)
