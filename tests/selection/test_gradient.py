"""The analytic gradient against autograd through the definition, in float64, on awkward shapes; the optimisers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.selection.encodings import near_orthogonal_encoding, subset_weights
from separatrix.selection.gradient import Inputs, batch_gradient, batch_loss
from separatrix.selection.optimisers import adam_state, adam_update, sgd_update
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer, selection_loss

F64 = torch.float64


def _compare(n: int, T: int, q: int, d: int, width: int, seed: int, std: float) -> None:
    E = near_orthogonal_encoding(T, width, threshold=0.9, generator=seed, dtype=F64).E
    X, y, target = SparseTokenSelection(T, q, d).batch(n, generator=seed, dtype=F64)
    model = SelectionTransformer(d, width, dtype=F64)
    model.randomise(std, seed)
    loss = selection_loss(model(X, y, E), target)
    loss.backward()
    inputs = Inputs(X.mT.contiguous(), E, y, subset_weights(E, y))
    with torch.no_grad():
        value, dW, dV = batch_gradient(model.W, model.V, inputs)
        again = batch_loss(model.W, model.V, inputs)
    torch.testing.assert_close(value, loss.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(again, loss.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(dW, model.W.grad[:, d:], rtol=0, atol=1e-10)
    torch.testing.assert_close(dV, model.V.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(3,), (5, 3)])
def test_the_gradient_is_autograds_with_any_token_of_the_query(shape: tuple[int, ...]) -> None:
    E = near_orthogonal_encoding(7, 12, threshold=0.9, generator=0, dtype=F64).E
    X, y, target = SparseTokenSelection(7, 2, 3).batch(5, generator=0, dtype=F64)
    x_query = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    model = SelectionTransformer(3, 12, dtype=F64)
    model.randomise(0.7, 0)
    loss = selection_loss(model(X, y, E, x_query), target)
    loss.backward()
    assert model.W.grad is not None
    assert model.W.grad[:, :3].abs().max() > 1e-3
    inputs = Inputs(X.mT.contiguous(), E, y, subset_weights(E, y), x_query)
    with torch.no_grad():
        value, dW, dV = batch_gradient(model.W, model.V, inputs)
    torch.testing.assert_close(value, loss.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(dW, model.W.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(dV, model.V.grad, rtol=0, atol=1e-10)


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 4), st.integers(8, 13), st.integers(0, 500), st.data())
def test_the_gradient_is_autograds(n: int, T: int, d: int, width: int, seed: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, min(T, 4)))
    _compare(n, T, q, d, width, seed, data.draw(st.sampled_from([0.0, 0.1, 1.0])))


@pytest.mark.parametrize("std", [0.0, 0.3])
def test_the_gradient_is_autograds_at_the_papers_sizes(std: float) -> None:
    _compare(64, 200, 3, 5, 170, 1, std)


def test_adam_is_pytorchs() -> None:
    source = torch.Generator().manual_seed(0)
    mine = torch.randn(4, 3, generator=source, dtype=F64)
    theirs = mine.clone().requires_grad_()
    optimiser = torch.optim.Adam([theirs])
    moments = adam_state(mine)
    for step in range(1, 60):
        gradient = torch.randn(4, 3, generator=source, dtype=F64) * (1 + step % 7)
        theirs.grad = gradient.clone()
        optimiser.step()
        adam_update(mine, gradient, moments, 1e-3, step)
        torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-13)


def test_sgd_is_pytorchs() -> None:
    mine = torch.arange(6.0).reshape(2, 3)
    theirs = mine.clone().requires_grad_()
    theirs.grad = torch.full((2, 3), 0.7)
    torch.optim.SGD([theirs], lr=0.3).step()
    sgd_update(mine, torch.full((2, 3), 0.7), 0.3)
    assert torch.equal(mine, theirs.detach())
