"""The transformer against its definition, its stochastic form, and the construction of Theorem C.3."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.construction import construct, overlaps
from separatrix.selection.encodings import near_orthogonal_encoding, near_orthogonal_stack, one_hot_encoding
from separatrix.selection.task import SparseTokenSelection, all_subsets
from separatrix.selection.transformer import (
    SelectionTransformer,
    StochasticSelectionTransformer,
    cosine,
    ground_truth,
    selection_loss,
)

F64 = torch.float64


def _written_out(W: Tensor, V: Tensor, X: Tensor, y: list[int], E: Tensor, x_query: Tensor) -> Tensor:
    """Definition 2.4 with the paper's columns: Z = [X; E], z_query = [x_query; e_y]."""
    T = X.shape[0]
    Z = torch.cat([X.T, E.T])
    E_y = E[y].T
    e_y = E_y @ torch.linalg.inv(E_y.T @ E_y) @ torch.ones(len(y), dtype=F64)
    z_query = torch.cat([x_query, e_y])
    scores = Z.T @ W @ z_query
    total = sum(math.exp(float(score)) for score in scores)
    S = torch.tensor([math.exp(float(scores[i])) / total for i in range(T)], dtype=F64)
    return V @ Z @ S


def _model(d: int, width: int, seed: int) -> SelectionTransformer:
    model = SelectionTransformer(d, width, dtype=F64)
    model.randomise(0.7, seed)
    return model


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 400), st.data())
def test_the_transformer_is_its_definition(T: int, d: int, seed: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, min(T, 3)))
    E = near_orthogonal_encoding(T, 12, threshold=0.8, generator=seed, dtype=F64).E
    X, y, _ = SparseTokenSelection(T, q, d).batch(2, generator=seed, dtype=F64)
    model = _model(d, 12, seed)
    W, V = model.W.detach(), model.V.detach()
    shared, per_example = torch.randn(d, dtype=F64), torch.randn(2, d, dtype=F64)
    for x_query, tokens in (
        (None, torch.zeros(2, d, dtype=F64)),
        (shared, shared.expand(2, d)),
        (per_example, per_example),
    ):
        expected = torch.stack([_written_out(W, V, X[n], y[n].tolist(), E, tokens[n]) for n in range(2)])
        torch.testing.assert_close(model(X, y, E, x_query), expected, rtol=0, atol=1e-11)


def test_gradients_pass_gradcheck_and_the_query_token_has_none() -> None:
    E = one_hot_encoding(4, dtype=F64)
    X, y, target = SparseTokenSelection(4, 2, 2).batch(3, generator=1, dtype=F64)
    model = _model(2, 4, 5)

    def loss(W: Tensor, V: Tensor) -> Tensor:
        return selection_loss(torch.func.functional_call(model, {"W": W, "V": V}, (X, y, E)), target)

    assert torch.autograd.gradcheck(loss, (model.W.detach().requires_grad_(), model.V.detach().requires_grad_()))
    selection_loss(model(X, y, E), target).backward()
    assert float(model.W.grad[:, :2].abs().max()) == 0.0


def test_many_queries_are_answered_one_by_one() -> None:
    batch = SparseTokenSelection(5, 2, 3).original_batch(2, generator=0, dtype=F64)
    model, E = _model(3, 5, 1), one_hot_encoding(5, dtype=F64)
    all_at_once = model(batch.X.unsqueeze(1).expand(-1, 5, -1, -1), batch.y, E)
    one_by_one = torch.stack([model(batch.X, batch.y[:, i], E) for i in range(5)], 1)
    torch.testing.assert_close(all_at_once, one_by_one)


def test_the_stochastic_transformer_is_the_mean_over_its_draws() -> None:
    model = _model(2, 16, 3)
    X, y, _ = SparseTokenSelection(6, 2, 2).batch(4, generator=0, dtype=F64)
    stochastic = StochasticSelectionTransformer(model, threshold=0.6, draws=5)
    encodings = near_orthogonal_stack(5, 6, 16, threshold=0.6, generator=8, dtype=F64).E
    expected = torch.stack([model(X, y, E) for E in encodings]).mean(0)
    torch.testing.assert_close(stochastic(X, y, generator=8), expected)


def test_zero_initialization_and_cosines() -> None:
    model = SelectionTransformer(2, 3)
    assert float(model.W.detach().abs().max()) == 0
    assert math.isnan(cosine(model.W.detach(), ground_truth(2, 3)[0]))
    model.set_ground_truth(3.0, value=0.5)
    W, V = ground_truth(2, 3)
    assert cosine(model.W.detach(), W) == pytest.approx(1, abs=1e-6)
    assert cosine(model.V.detach(), V) == pytest.approx(1, abs=1e-6)
    assert cosine(W, torch.eye(5)) == pytest.approx(3 / math.sqrt(15), abs=1e-6)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="E: expected"):
        SelectionTransformer(2, 3)(torch.zeros(4, 2), torch.tensor([0, 1]), torch.zeros(5, 3))
    with pytest.raises(ArgumentError, match="x_query: expected"):
        SelectionTransformer(2, 3)(torch.zeros(4, 2), torch.tensor([0, 1]), torch.eye(4, 3), torch.zeros(3))


@pytest.mark.parametrize("epsilon", [0.5, 1e-2, 1e-6])
@pytest.mark.parametrize(("T", "q", "width"), [(9, 2, 48), (6, 3, 64), (5, 5, 20), (4, 1, 32)])
def test_the_construction_meets_its_bound_and_its_epsilon(T: int, q: int, width: int, epsilon: float) -> None:
    E = near_orthogonal_encoding(T, width, threshold=0.4, generator=2, dtype=F64).E
    y = all_subsets(T, q)
    built = construct(E, y, 3, epsilon=epsilon)
    X = SparseTokenSelection(T, q, 3).batch(len(y), generator=5, dtype=F64).X
    error, bound = built.error(X, y), built.bound(X, y)
    longest = X.norm(dim=-1).amax(-1)
    assert bool((error <= bound + 1e-14).all())
    assert bool((bound <= epsilon * longest * (1 + 1e-9)).all()) or q == T
    # The bound is within a factor of two of the worst case, where tokens of the subset are opposite to all others.
    sign = torch.full((len(y), T, 1), -1.0, dtype=F64).scatter(1, y.unsqueeze(2), 1.0)
    worst = built.error(sign * torch.ones(3, dtype=F64), y) / 3**0.5
    spill = built.bound(sign * torch.ones(3, dtype=F64), y) / 3**0.5
    assert bool((worst <= spill + 1e-14).all())


def test_the_construction_with_one_hot_codes_is_exact_in_the_limit() -> None:
    y = all_subsets(6, 2)
    built = construct(one_hot_encoding(6, dtype=F64), y, 2, epsilon=1e-13)
    X = torch.ones(len(y), 6, 2, dtype=F64).scatter(1, y.unsqueeze(2).expand(-1, -1, 2), -1.0)
    assert float(built.error(X, y).max()) < 3e-13
    assert built.overlap == 0.0


def test_overlaps_exclude_the_subset() -> None:
    E = near_orthogonal_encoding(5, 30, threshold=0.6, generator=0, dtype=F64).E
    y = torch.tensor([[0, 3], [1, 2]])
    products = overlaps(E, y)
    for n, outside in enumerate(([1, 2, 4], [0, 3, 4])):
        E_y = E[y[n]].T
        e_y = E_y @ torch.linalg.inv(E_y.T @ E_y) @ torch.ones(2, dtype=F64)
        torch.testing.assert_close(products[n], E[outside] @ e_y)


def test_an_encoding_that_cannot_separate_is_refused() -> None:
    E = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]], dtype=F64)
    with pytest.raises(SeparatrixError, match="must be below 1 for a scale to separate"):
        construct(E, torch.tensor([[0, 1]]), 1, epsilon=0.1)
