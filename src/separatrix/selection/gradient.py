r"""The loss and its analytic gradient on a batch, by a few matrix products.

With U = W z_query, S = softmax(Z^T U), f = V Z S and the residual R = f - target, one example's gradient of |R|^2/2 is

    dV = R (Z S)^T,    dW = (Z dA) z_query^T,    dA = J Z^T V^T R,    J = diag(S) - S S^T

(Lemma D.1 of Wang, Wei, Hsu and Lee, with the chain rule written out). Over a batch that shares one encoding, Z = [X;
E] splits every product into a part with the tokens, one small product for each example, and a part with E, one product
for all examples: V_e E is computed once and E S never, because V_e (E S) = (V_e E) S and the sum of R (E S)^T over the
batch is (sum R S^T) E^T. The scalar S . Z^T V^T R that J subtracts is f . R.

The tokens have the shape (n, d, T), with tokens as columns as in the paper, so that the last dimension is that of the T
weights. The tests compare this module with `SelectionTransformer`, which is the definition.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


class Inputs(NamedTuple):
    """A batch of n examples that share one encoding.

    The target is not stored: it is computed from X after the attention has brought X into the cache.

    Attributes:
        X: the tokens, of shape (n, d, T).
        E: the encoding, of shape (T, width).
        y: the subsets, of shape (n, q).
        g: the weights of the subset codes, e_y = sum_j g_j e_j, of shape (n, q).
        x_query: the tokens of the queries, of shape (n, d), or one for all of shape (d,); None for zero.
    """

    X: Tensor
    E: Tensor
    y: Tensor
    g: Tensor
    x_query: Tensor | None = None


def batch_loss(W: Tensor, V: Tensor, inputs: Inputs) -> Tensor:
    """The loss of equation (3) on a batch: half the mean squared error.

    Args:
        W: the matrix W, of shape (d + width, d + width).
        V: the matrix V, of shape (d, d + width).
        inputs: the batch.

    Example:
        >>> X = torch.ones(1, 2, 3)
        >>> inputs = Inputs(X, torch.eye(3), torch.tensor([[0, 2]]), torch.ones(1, 2))
        >>> batch_loss(torch.zeros(5, 5), torch.zeros(2, 5), inputs).item()
        1.0
    """
    R = _forward(W, V, inputs)[-1]
    return R.square().sum() / (2 * len(R))


def batch_gradient(W: Tensor, V: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of equation (3) on a batch, dL/dW and dL/dV.

    Args:
        W: the matrix W, of shape (d + width, d + width).
        V: the matrix V, of shape (d, d + width).
        inputs: the batch.

    Returns:
        The loss; dL/dW, of shape (d + width, d + width), or without its first d columns, which are zero, if x_query is
        None; and dL/dV.

    Example:
        >>> X = torch.ones(1, 2, 3)
        >>> inputs = Inputs(X, torch.eye(3), torch.tensor([[0, 2]]), torch.ones(1, 2))
        >>> loss, dW, dV = batch_gradient(torch.zeros(5, 5), torch.zeros(2, 5), inputs)
        >>> dW.abs().max().item(), dV[:, :2].tolist()
        (0.0, [[-1.0, -1.0], [-1.0, -1.0]])
    """
    X, E = inputs.X, inputs.E
    n, d, _ = X.shape
    codes, S, pooled, shown_codes, f, R = _forward(W, V, inputs)
    loss = R.square().sum() / (2 * n)
    R = R / n
    along = (R * f).sum(1, keepdim=True)
    dV = torch.cat([R.mT @ pooled, (R.mT @ S) @ E], 1)
    dA = (R @ shown_codes).sub_(along)
    dA.unsqueeze(1).baddbmm_((R @ V[:, :d]).unsqueeze(1), X)
    dA.mul_(S)
    on_tokens, on_encodings = torch.bmm(dA.unsqueeze(1), X.mT).squeeze(1).mT, (dA @ E).mT
    dW = torch.cat([on_tokens @ codes, on_encodings @ codes])
    if inputs.x_query is not None:
        tokens = inputs.x_query.expand(n, d)
        dW = torch.cat([torch.cat([on_tokens @ tokens, on_encodings @ tokens]), dW], 1)
    return loss, dW, dV


def _forward(W: Tensor, V: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The subset codes (n, width), the attention S (n, T), X S (n, d), V_e E (d, T), the output and residual (n, d)."""
    X, E, y, g, x_query = inputs
    d = X.shape[1]
    codes = embedding_bag(y, E, per_sample_weights=g, mode="sum")
    U = codes @ W[:, d:].mT
    if x_query is not None:
        U = U + x_query @ W[:, :d].mT
    logits = U[:, d:] @ E.mT
    logits.unsqueeze(1).baddbmm_(U[:, None, :d], X)
    S = torch.softmax(logits, 1)
    pooled = torch.bmm(S.unsqueeze(1), X.mT).squeeze(1)
    shown_codes = V[:, d:] @ E.mT
    f = torch.addmm(pooled @ V[:, :d].mT, S, shown_codes.mT)
    target = X.gather(2, y.unsqueeze(1).expand(-1, d, -1)).mean(2)
    return codes, S, pooled, shown_codes, f, f - target
