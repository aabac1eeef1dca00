"""Learners against the library's attention, by construction, and from zero initialization."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection import SparseTokenSelection, near_orthogonal_encoding, selection_loss, subset_code
from separatrix.selection.learners import ATTENTIONS, SelectionLearner
from separatrix.selection.transformer import SelectionTransformer

D64 = torch.float64
LINEAR = ("identity", "elu", "relu", "taylor2", "random_positive")


def drawn(attention: str, T: int, d: int, width: int, seed: int = 0) -> tuple[SelectionLearner, Tensor, Tensor, Tensor]:
    """A learner, tokens, encodings and codes in float64."""
    source = torch.Generator().manual_seed(seed)
    learner = SelectionLearner(attention, d, width, generator=source, dtype=D64)
    X, y, _ = SparseTokenSelection(T, 2, d).batch(5, generator=source, dtype=D64)
    E = near_orthogonal_encoding(T, width, threshold=0.9, generator=source, dtype=D64).E
    return learner, X, E, subset_code(E, y)


def full(learner: SelectionLearner, X: Tensor, E: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """Z and z in the paper's notation, with a 1 at the end if there are biases."""
    Z = torch.stack([torch.cat([x, E], 1) for x in X])
    z = torch.cat([torch.zeros(len(X), learner.d, dtype=X.dtype), code], 1).unsqueeze(1)
    if learner.attention == "order 3 biased":
        Z = torch.nn.functional.pad(Z, (0, 1), value=1.0)
        z = torch.nn.functional.pad(z, (0, 1), value=1.0)
    return Z, z


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize(("T", "d", "width"), [(3, 1, 16), (7, 3, 12), (11, 2, 16)])
def test_a_learner_is_the_librarys_attention(attention: str, T: int, d: int, width: int) -> None:
    learner, X, E, code = drawn(attention, T, d, width)
    Z, z = full(learner, X, E, code)
    if attention == "softmax W":
        expected = sx.tensor_attention(z @ learner.W.mT, Z, Z @ learner.V.mT, scale=1.0)
    elif attention == "softmax QK":
        expected = sx.tensor_attention(z @ learner.Q.mT, Z @ learner.K.mT, Z @ learner.V.mT, scale=1.0)
    elif attention == "unnormalised":
        expected = (z @ learner.Q.mT) @ (Z @ learner.K.mT).mT @ (Z @ learner.V.mT)
    elif attention in LINEAR:
        phi = learner.features or attention
        expected = sx.linear_attention(z @ learner.Q.mT, Z @ learner.K.mT, Z @ learner.V.mT, feature_map=phi)
    else:
        keys, values = [Z @ learner.K1.mT, Z @ learner.K2.mT], [Z @ learner.V1.mT, Z @ learner.V2.mT]
        expected = sx.tensor_attention(z @ learner.Q.mT, keys, values, scale=1.0)
    # The attention "identity" divides by a sum in which terms cancel: the error is that of the quotient.
    torch.testing.assert_close(learner(X, E, code), expected.squeeze(1), rtol=1e-9, atol=1e-9)


def test_softmax_with_w_is_the_papers_transformer() -> None:
    learner, X, E, _ = drawn("softmax W", 6, 2, 8)
    transformer = SelectionTransformer(2, 8, dtype=D64)
    with torch.no_grad():
        transformer.W.copy_(learner.W)
        transformer.V.copy_(learner.V)
    y = torch.tensor([[0, 4], [1, 2], [2, 5], [0, 1], [3, 4]])
    torch.testing.assert_close(learner(X, E, subset_code(E, y)), transformer(X, y, E), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("attention", ["relu", "identity", "unnormalised"])
def test_one_hot_positions_need_no_exponential(attention: str) -> None:
    """If Q and K read the positions and V the tokens, the weights are exactly those of the subset."""
    T, q, d = 9, 3, 2
    learner = SelectionLearner(attention, d, T, generator=0, dtype=D64)
    read = torch.diag(torch.tensor([0.0] * d + [1.0] * T, dtype=D64))
    with torch.no_grad():
        learner.Q.copy_(read / (q if attention == "unnormalised" else 1))
        learner.K.copy_(read)
        learner.V.copy_(torch.eye(d, d + T, dtype=D64))
    X, y, target = SparseTokenSelection(T, q, d).batch(20, generator=1, dtype=D64)
    E = torch.eye(T, dtype=D64)
    assert selection_loss(learner(X, E, subset_code(E, y)), target).item() < 1e-30


@pytest.mark.parametrize("attention", ["softmax W", "softmax QK"])
def test_from_zero_the_factors_have_no_gradient_and_the_product_has(attention: str) -> None:
    """If V is not zero, the gradient of W = 0 is not zero, but those of Q = 0 and K = 0 are."""
    T, q, d = 8, 2, 3
    learner = SelectionLearner(attention, d, T, generator=0, zero=True, dtype=D64)
    with torch.no_grad():
        learner.V.copy_(0.1 * torch.eye(d, d + T, dtype=D64))
    X, y, target = SparseTokenSelection(T, q, d).batch(50, generator=1, dtype=D64)
    E = torch.eye(T, dtype=D64)
    selection_loss(learner(X, E, subset_code(E, y)), target).backward()
    sizes = {name: float(parameter.grad.abs().max()) for name, parameter in learner.named_parameters()}
    assert sizes.pop("V") > 1e-3
    assert all((size > 1e-4) == (attention == "softmax W") for size in sizes.values())


@pytest.mark.parametrize("attention", ["elu", "taylor2", "random_positive", "order 3 biased", "softmax QK"])
def test_the_gradient_is_that_of_differences(attention: str) -> None:
    learner, X, E, code = drawn(attention, 5, 2, 8)
    names, values = zip(*learner.named_parameters(), strict=True)
    leaves = tuple(value.detach().clone().requires_grad_() for value in values)

    def output(*arguments: Tensor) -> Tensor:
        return torch.func.functional_call(learner, dict(zip(names, arguments, strict=True)), (X, E, code))

    assert torch.autograd.gradcheck(output, leaves)


@pytest.mark.parametrize("attention", ["identity", "relu"])
def test_a_normaliser_that_vanishes_is_refused(attention: str) -> None:
    learner = SelectionLearner(attention, 1, 4, generator=0, zero=True)
    with pytest.raises(SeparatrixError, match="normaliser of example 0 vanishes"):
        learner(torch.ones(2, 4, 1), torch.eye(4), torch.ones(2, 4))


def test_a_seed_is_a_learner() -> None:
    before = torch.get_rng_state()
    first, two, other = (SelectionLearner("order 3", 2, 3, generator=seed) for seed in (4, 4, 5))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), two.parameters(), strict=True))
    assert not torch.equal(first.Q, other.Q)
    assert torch.equal(before, torch.get_rng_state())
    # N(0, 1/(d + width)): the mean square of 5 * 5 * 3 + 2 * 2 * 5 numbers is 1/5 to within 6 standard deviations.
    squares = torch.cat([p.detach().flatten() for p in first.parameters()]).square()
    assert abs(float(squares.mean()) * 5 - 1) < 6 * math.sqrt(2 / len(squares))


@pytest.mark.parametrize("change", [{"attention": "sine"}, {"d": 0}, {"width": 0}, {"generator": -1}])
def test_bad_learners_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        SelectionLearner(**{"attention": "relu", "d": 2, "width": 3, "generator": 0, **change})
