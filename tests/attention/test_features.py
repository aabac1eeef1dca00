"""The feature maps of linear attention: their kernels, the distribution of the random ones, bad input."""

from __future__ import annotations

import math

import pytest
import torch

from separatrix import ArgumentError, linear_attention
from separatrix.attention.features import elu, random_positive, taylor2

DRAWN = random_positive(3, 7, torch.Generator().manual_seed(3))


def draw(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [0.1 + torch.rand(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_elu_is_elu_plus_one():
    x = torch.linspace(-5, 5, 101, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(elu(x), torch.nn.functional.elu(x) + 1)
    (slope,) = torch.autograd.grad(elu(x).sum(), x)
    torch.testing.assert_close(slope, torch.exp(x.clamp(max=0)))  # also at 0, where the two pieces meet
    assert elu(torch.tensor(800.0)) == 801


def test_taylor2_is_the_second_order_of_exp():
    q, k = (10 * x - 5 for x in draw((20, 4), (30, 4)))
    s = q @ k.mT
    torch.testing.assert_close(taylor2(q) @ taylor2(k).mT, 1 + s + s.square() / 2)
    assert (s < 0).any()
    assert taylor2(q).shape == (20, 1 + 4 + 10)


def test_random_features_are_gaussian_and_orthogonal_in_blocks():
    d, blocks = 3, 20_000
    W = random_positive(d, d * blocks, torch.Generator().manual_seed(1)).projection.reshape(blocks, d, d)
    gram = W @ W.mT
    torch.testing.assert_close(gram, torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1)))
    # The characteristic function exp(-|x|^2 / 2) at x determines the distribution of a row. Blocks are independent and
    # their means lie in [-1, 1]: by Hoeffding each deviation has probability below 2 exp(-blocks t^2 / 2) < 1e-7.
    for x in ([0.5, 0.0, 0.0], [0.0, -1.0, 0.5], [1.0, 1.0, 1.0], [0.0, 0.0, 2.0]):
        point = torch.tensor(x, dtype=torch.float64)
        phase = W @ point
        assert abs(phase.cos().mean() - math.exp(-point.square().sum() / 2)) < 0.041
        assert abs(phase.sin().mean()) < 0.041
    ordinary = random_positive(3, 4, torch.Generator().manual_seed(1))
    assert ordinary.projection.shape == (4, 3)
    assert torch.equal(ordinary.projection, random_positive(3, 4, torch.Generator().manual_seed(1)).projection)


def test_random_features_multiply_to_the_exponential_in_the_mean():
    q, k = draw((3,), (3,))
    features = DRAWN(q) * DRAWN(k)
    exact = torch.exp(DRAWN.projection @ (q + k) - (q.square().sum() + k.square().sum()) / 2) / 7
    torch.testing.assert_close(features, exact)


def test_random_features_approach_softmax_attention():
    generator = torch.Generator().manual_seed(2)
    q, k, v = (0.5 * torch.randn(12, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    exact = torch.softmax(q @ k.mT, -1) @ v
    errors = [
        (linear_attention(q, k, v, feature_map=random_positive(4, r, generator)) - exact).abs().max().item()
        for r in (64, 65_536)
    ]
    assert errors[1] < 0.01 < errors[0]


def test_random_features_of_long_vectors_do_not_underflow():
    q, k, v = (x.float() for x in draw((5, 3), (6, 3), (6, 2)))
    q, k = 20 * q, 20 * k  # exp(-|q|^2 / 2) is below 1e-100
    log_weights = torch.logsumexp(DRAWN.log(q.double())[:, None] + DRAWN.log(k.double()), -1)
    exact = torch.softmax(log_weights, -1) @ v.double()
    torch.testing.assert_close(linear_attention(q, k, v, feature_map=DRAWN), exact.float(), rtol=1e-3, atol=1e-4)


def test_the_global_generator_is_not_used():
    before = torch.get_rng_state()
    q, k, v = draw(*[(4, 3)] * 3)
    linear_attention(q, k, v, feature_map=random_positive(3, 5, torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "3"])
@pytest.mark.parametrize("argument", ["head_dim", "num_features"])
def test_bad_arguments_of_random_positive(argument, bad):
    good = {"head_dim": 3, "num_features": 4, "generator": torch.Generator()}
    with pytest.raises(ArgumentError, match=f"{argument}: expected an integer >= 1"):
        random_positive(**(good | {argument: bad}))
    with pytest.raises(ArgumentError, match=r"generator: expected a torch\.Generator, got 7"):
        random_positive(**(good | {"generator": 7}))
