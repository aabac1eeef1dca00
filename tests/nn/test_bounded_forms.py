"""Score forms and biases in layers with a bound: the norms of mapped vectors, outputs within the tolerance, states."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention.near_linear.bounded_plan import largest_token
from separatrix.nn import TensorAttention
from separatrix.nn.score_bound import ScoreBound
from tests.contracts.literal_forms import SCORES, literal_attention
from tests.draws import draw, seeded
from tests.pairwise import pairwise


def bounded(form="pairwise", order=3, **options) -> TensorAttention:
    """A layer with 2 heads of 6 coordinates, with random factors of the bias and random temperatures."""
    how = {"bound": 1.5, "dtype": torch.float64, "generator": seeded(), **options}
    layer = TensorAttention(12, 2, order, form=form, **how)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "bias_proj" in name or name == "temperature":
                parameter.copy_(torch.randn(parameter.shape, generator=seeded(7)))
    return layer


def unit_mean(x: Tensor, order: int) -> Tensor:
    """x over the k-th root of the mean of its k-th powers."""
    return x / x.abs().pow(order).mean(-1, keepdim=True).pow(1 / order)


def literal_heads(layer: TensorAttention, x: Tensor, **options: object) -> Tensor:
    """Attention with the scores bound * sigmoid(temperature) * (form + bias) / D, literally."""
    order, heads = layer.order, layer.num_heads

    def split(y: Tensor) -> Tensor:
        return y.unflatten(-1, (heads, -1)).transpose(-3, -2)

    q, *keys = (unit_mean(split(project(x)), order) for project in (layer.q_proj, *layer.k_proj))
    values = [split(project(x)) for project in layer.v_proj]
    D = {"product": 1, "pairwise": order * (order - 1) // 2, "determinant": [1, 1, 2, 6][order - 1]}[layer.form]
    D = D * layer.head_dim + layer.key_bias
    temperature = torch.sigmoid(layer.temperature).reshape(-1, *[1] * order)
    bias: Tensor | float = 0.0
    if layer.key_bias:
        factors = [split(project(x)) for project in layer.bias_proj]
        factors = [g / (g.abs().pow(order).mean(-1, keepdim=True) + 1 / layer.key_bias) ** (1 / order) for g in factors]
        letters = "abc"[: order - 1]
        terms = ",".join(f"...{letter}r" for letter in letters)
        bias = torch.einsum(f"{terms}->...{letters}", *factors).unsqueeze(-order)

    def score(vectors: list[Tensor]) -> Tensor:
        return temperature * (SCORES[layer.form](vectors) + bias) / D

    return literal_attention(score, q, keys, values, scale=layer.bound, **options)[0]


def heads_of(layer: TensorAttention, call) -> Tensor:
    """The outputs of the heads in a call, which `out_proj` takes."""
    kept = []
    handle = layer.out_proj.register_forward_pre_hook(lambda module, given: kept.append(given[0]))
    call()
    handle.remove()
    return kept[0].unflatten(-1, (layer.num_heads, -1)).transpose(-3, -2)


CASES = pairwise(["product", "pairwise", "determinant"], [2, 3], [0, 2], [False, True])
"""The form, the order, the rank of the bias, and whether the call is causal."""


@pytest.mark.parametrize(("form", "order", "rank", "is_causal"), CASES)
def test_scores_are_the_form_over_its_number_of_products(form, order, rank, is_causal):
    layer, x = bounded(form, order, key_bias=rank), draw(2, 7, 12, seed=1)
    found = heads_of(layer, lambda: layer(x, is_causal=is_causal))
    torch.testing.assert_close(found, literal_heads(layer, x, is_causal=is_causal), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("form", "order", "rank", "is_causal"), CASES)
def test_near_linear_is_within_the_tolerance(form, order, rank, is_causal):
    tolerance = 0.05
    layer = bounded(form, order, key_bias=rank, tolerance=tolerance, method="polynomial")
    x = draw(2, 9, 12, seed=1)
    found = heads_of(layer, lambda: layer(x, is_causal=is_causal))
    certificate = layer.certificate(x, is_causal=is_causal)
    values = torch.stack([project(x).detach().unflatten(-1, (2, -1)).abs().amax() for project in layer.v_proj])
    assert certificate.total <= tolerance * values.prod()
    error = (found - literal_heads(layer, x, is_causal=is_causal)).abs()
    assert (error.amax(-1) <= certificate.per_query).all()
    assert error.max() > 0
    state, causal = layer.cache(2), literal_heads(layer, x, is_causal=True)
    decoded = heads_of(layer, lambda: layer.decode(x, state))
    assert ((decoded - causal).abs() <= state.certificate.total).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["product", "pairwise", "determinant"])
@pytest.mark.parametrize(("order", "d", "rank"), [(2, 2, 0), (3, 3, 1), (3, 48, 0), (4, 12, 5)])
def test_mapped_vectors_are_within_the_norm_that_plans_assume(form, order, d, rank, dtype):
    """Vectors of every size, also one-hot and flat ones, have l_k norms and sums of products within the bounds."""
    score_bound = ScoreBound(order, d, 1.0, None, form, rank)
    generator = seeded(order)
    vectors = [torch.randn(1, 1, 300, d, dtype=torch.float64, generator=generator) for _ in range(order)]
    for x in vectors:
        x[..., :50, :] = x[..., :50, :].sign()
        x[..., 50:100, 1:] = 0
        x[..., 100:110, :] = 0
        x[..., 110:200, :] *= 10.0 ** torch.randint(-4, 4, (90, 1), generator=generator)
    bias = [torch.randn(1, 1, 300, rank, generator=generator).to(dtype) for _ in range(order - 1)] if rank else []
    q, *keys = (x.to(dtype) for x in vectors)
    temperature = torch.full((1,), 40.0, dtype=dtype)  # the sigmoid of 40 is 1
    q, keys, _ = score_bound.apply(q, keys, bias, keys, temperature)
    limit = largest_token(order, score_bound.factor_dim, 1.0, "order", dtype)
    total = torch.ones((), dtype=torch.float64)
    for x in (q, *keys):
        assert x.shape[-1] == score_bound.factor_dim
        norms = x.double().abs().pow(order).sum(-1).pow(1 / order)
        assert norms.max() <= limit
        if x is q or not rank:
            assert norms[..., :100].min() >= 2 - limit
        total = total * x.double().abs()
    assert total.sum(-1).max() <= limit**order


@pytest.mark.parametrize("rank", [1, 2])
def test_gradients_reach_every_weight(rank):
    layer, x = bounded(key_bias=rank), draw(2, 5, 12, seed=2)
    incoming = draw(2, 2, 5, 6, seed=3)
    weights = [parameter for parameter in layer.parameters() if parameter is not layer.out_proj.weight]
    weights = [parameter for parameter in weights if parameter is not layer.out_proj.bias]
    found = torch.autograd.grad(heads_of(layer, lambda: layer(x, is_causal=True)), weights, incoming)
    expected = torch.autograd.grad(literal_heads(layer, x, is_causal=True), weights, incoming)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)
        assert theirs.abs().max() > 0


def test_alibi_is_added_to_bounded_scores():
    layer, x = bounded("product", alibi=True), draw(2, 6, 12, seed=1)
    i, j1, j2 = torch.meshgrid(*[torch.arange(6, dtype=torch.float64)] * 3, indexing="ij")
    slopes = torch.tensor([2.0**-4, 2.0**-8], dtype=torch.float64)[:, None, None, None]
    q, keys, values = layer.project(x, x, x)
    how = {"scale": layer.bound, "bias": -slopes * (2 * i - j1 - j2), "is_causal": True}
    expected, _ = literal_attention(SCORES["product"], q, keys, values, **how)
    found = heads_of(layer, lambda: layer(x, is_causal=True))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with pytest.raises(sx.ArgumentError, match="the bias grows with the distance, so that no bound holds"):
        bounded("product", alibi=True, tolerance=0.1)


def test_a_bound_is_saved_with_its_form():
    layer = bounded(key_bias=1, tolerance=0.05)
    twin = TensorAttention.from_config(layer.config(), dtype=torch.float64)
    twin.load_state_dict(layer.state_dict())
    x = draw(2, 5, 12)
    assert torch.equal(twin(x), layer(x))
    assert layer.plan.d == layer.key_dim == 3 * 6 + 1
    with pytest.raises(sx.ArgumentError, match="form = determinant, as in this layer"):
        bounded("determinant", key_bias=1).load_state_dict(layer.state_dict())
