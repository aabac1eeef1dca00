"""Exact expectations over X and y: the moment formulas against quadrature, and the trajectory against the recursion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from separatrix.errors import SeparatrixError
from separatrix.selection.dynamics import population_dynamics
from separatrix.selection.encodings import near_orthogonal_encoding, one_hot_encoding
from separatrix.selection.moments import exact_descent, exact_gradient
from separatrix.selection.task import all_subsets, subset_average
from separatrix.selection.transformer import SelectionTransformer

F64 = torch.float64


def _by_quadrature(W: Tensor, V: Tensor, E: Tensor, q: int) -> tuple[Tensor, Tensor, Tensor]:
    """Autograd through the definition, over all subsets and the nodes of a Gauss rule for N(0, 1).

    The rule has degree 5, and the gradient has degree 3 in X, so that the mean is exact.
    """
    T, d = len(E), len(V)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights = weights / weights.sum()
    X = torch.tensor(list(itertools.product(nodes, repeat=T * d)), dtype=F64).reshape(-1, T, d)
    probability = torch.tensor([np.prod(w) for w in itertools.product(weights, repeat=T * d)], dtype=F64)
    model = SelectionTransformer(d, E.shape[1], dtype=F64)
    with torch.no_grad():
        model.W.copy_(W)
        model.V.copy_(V)
    subsets = all_subsets(T, q)
    loss = torch.zeros((), dtype=F64)
    for y in subsets:
        repeated = y.expand(len(X), -1)
        error = (model(X, repeated, E) - subset_average(X, repeated)).square().sum(1)
        loss = loss + 0.5 * (probability * error).sum() / len(subsets)
    loss.backward()
    return loss.detach(), model.W.grad, model.V.grad


@pytest.mark.parametrize(("T", "q", "d"), [(4, 2, 2), (5, 3, 1), (3, 1, 2), (3, 3, 2)])
@pytest.mark.parametrize("one_hot", [True, False])
def test_the_moments_are_the_quadrature(T: int, q: int, d: int, one_hot: bool) -> None:
    """The formulas hold for any V and any W whose token rows are zero, also off the trajectory."""
    E = one_hot_encoding(T, dtype=F64)
    if not one_hot:
        E = near_orthogonal_encoding(T, 7, threshold=0.8, generator=1, dtype=F64).E
    source = torch.Generator().manual_seed(T)
    size = d + E.shape[1]
    W, V = torch.randn(size, size, generator=source, dtype=F64), torch.randn(d, size, generator=source, dtype=F64)
    W[:d, d:] = 0
    for computed, expected in zip(exact_gradient(W, V, E, q), _by_quadrature(W, V, E, q), strict=True):
        torch.testing.assert_close(computed, expected, rtol=0, atol=1e-12)


def test_attention_that_reads_tokens_is_refused() -> None:
    W = torch.zeros(5, 5, dtype=F64)
    W[0, 4] = 1e-300
    with pytest.raises(SeparatrixError, match="moments have no closed form"):
        exact_gradient(W, torch.zeros(1, 5, dtype=F64), one_hot_encoding(4, dtype=F64), 2)


@pytest.mark.parametrize(
    ("T", "q", "d", "lr", "steps"),
    [(7, 2, 2, 0.1, 3000), (6, 3, 1, 0.05, 1500), (9, 2, 5, 0.002, 600), (5, 4, 3, 0.02, 800)],
)
def test_the_whole_matrices_follow_the_recursion(T: int, q: int, d: int, lr: float, steps: int) -> None:
    """Every entry of W and V, and the loss, follow Lemma D.5 and equation (6) to 1e-12 at every step."""
    W, V, loss = exact_descent(one_hot_encoding(T, dtype=F64), q, d, lr, steps)
    run = population_dynamics(T, q, d, lr, steps)
    centred = torch.zeros(d + T, d + T, dtype=F64)
    centred[d:, d:] = torch.eye(T, dtype=F64) - 1 / T
    for t in range(steps + 1):
        assert float((W[t] - run.C[t] * centred).abs().max()) < 1e-12
        assert float((V[t] - run.alpha[t] * torch.eye(d, d + T, dtype=F64)).abs().max()) < 1e-12
    np.testing.assert_allclose(loss.numpy(), run.loss, rtol=0, atol=1e-12)
    assert run.C[-1] > 0.001


def test_one_step_of_the_trajectory_by_quadrature_alone() -> None:
    """A gradient step by quadrature, from a point of the trajectory, follows Lemma D.5 without the moment formulas."""
    T, q, d, lr = 4, 2, 2, 0.1
    run = population_dynamics(T, q, d, lr, 41)
    centred = torch.zeros(d + T, d + T, dtype=F64)
    centred[d:, d:] = torch.eye(T, dtype=F64) - 1 / T
    V_star = torch.eye(d, d + T, dtype=F64)
    loss, dW, dV = _by_quadrature(run.C[40] * centred, run.alpha[40] * V_star, one_hot_encoding(T, dtype=F64), q)
    torch.testing.assert_close(run.C[40] * centred - lr * dW, run.C[41] * centred, rtol=0, atol=1e-12)
    torch.testing.assert_close(run.alpha[40] * V_star - lr * dV, run.alpha[41] * V_star, rtol=0, atol=1e-12)
    assert abs(float(loss) - run.loss[40]) < 1e-12


def test_a_fixed_near_orthogonal_encoding_keeps_V_but_not_the_identity() -> None:
    """The case that the theorems do not cover: V keeps its direction, W leaves the multiples of the identity."""
    E = near_orthogonal_encoding(7, 6, threshold=0.7, generator=3, dtype=F64).E
    W, V, loss = exact_descent(E, 2, 2, 0.1, 400)
    assert float((V[-1] - V[-1][0, 0] * torch.eye(2, 8, dtype=F64)).abs().max()) < 1e-12
    block = W[-1][2:, 2:]
    assert float((block - block.trace() / 6 * torch.eye(6, dtype=F64)).norm() / block.norm()) > 0.05
    assert bool((loss.diff() <= 0).all())
