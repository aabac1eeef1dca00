"""Grouped heads: several query heads share a head of keys and values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from separatrix.attention import reference
from separatrix.nn import TensorAttention
from tests.draws import seeded
from tests.pairwise import pairwise


def make(kv_heads: int, order: int = 3, **options: object) -> TensorAttention:
    options = {"dtype": torch.float64, **options}
    layer = TensorAttention(12, 6, order, num_kv_heads=kv_heads, generator=seeded(order), **options)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(generator=seeded(7))
    return layer


def full_twin(layer: TensorAttention, **options: object) -> TensorAttention:
    """A layer with a key and value head for every query head; shared heads are repeated."""
    twin = TensorAttention(12, 6, layer.order, dtype=torch.float64, **options)
    shared = layer.num_heads // layer.num_kv_heads
    weights = layer.state_dict()
    for name, weight in weights.items():
        if name.startswith(("k_proj", "v_proj")):
            heads = weight.unflatten(0, (layer.num_kv_heads, layer.head_dim))
            weights[name] = heads.repeat_interleave(shared, 0).flatten(0, 1)
    twin.load_state_dict(weights)
    return twin


@pytest.mark.parametrize(
    ("kv_heads", "order", "call", "options"),
    pairwise(
        [1, 2, 3, 6],
        [2, 3, 4],
        [{}, {"is_causal": True}, {"padded": True}],
        [{}, {"windows": 2}, {"bound": 1.5}, {"bound": 1.5, "tolerance": 1e-3}],
    ),
)
def test_it_is_the_layer_with_repeated_heads(kv_heads, order, call, options):
    layer = make(kv_heads, order, **options)
    twin = full_twin(layer, **options)
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=seeded(1), requires_grad=True)
    call = dict(call)
    if call.pop("padded", False):
        call["key_padding_mask"] = torch.tensor([[False] * 5, [False, True, True, False, True]])
    ours, theirs = layer(x, **call), twin(x, **call)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    slopes = [torch.autograd.grad(out.square().sum(), x)[0] for out in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["auto", "polynomial"])
def test_near_linear_of_many_tokens(method):
    options = {"bound": 1.0, "tolerance": 1e-3, "method": method}
    layer = make(2, **options)
    twin = full_twin(layer, **options)
    x = torch.randn(1, 300, 12, dtype=torch.float64, generator=seeded(2))
    torch.testing.assert_close(layer(x, is_causal=True), twin(x, is_causal=True), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer.certificate(x).per_query, twin.certificate(x).per_query)


def test_order_3_is_the_definition():
    layer = make(2)
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=seeded(3))

    def heads(t: Tensor, count: int) -> Tensor:
        return t.unflatten(-1, (count, 2)).transpose(1, 2).repeat_interleave(6 // count, 1)

    per_head, _ = reference.tensor_attention(
        heads(layer.q_proj(x), 6),
        [heads(p(x), 2) for p in layer.k_proj],
        [heads(p(x), 2) for p in layer.v_proj],
        scale=1 / 2,
    )
    exact = layer.out_proj(per_head.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x), exact, rtol=1e-11, atol=1e-11)


def test_order_2_is_pytorchs_grouped_attention():
    layer = make(3, order=2, scale=2**-0.5)
    x = torch.randn(2, 7, 12, dtype=torch.float64, generator=seeded(4))
    q, (key,), (value,) = layer.project(x, x, x)
    assert key.shape == (2, 3, 7, 2)
    theirs = scaled_dot_product_attention(q, key, value, is_causal=True, enable_gqa=True)
    expected = layer.out_proj(theirs.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, is_causal=True), expected, rtol=1e-11, atol=1e-11)


def test_the_first_keys_have_the_variance_of_a_layer_without_groups():
    layer = TensorAttention(256, 8, num_kv_heads=1, generator=seeded())
    bound = (6 / 512) ** 0.5
    for projection in (*layer.k_proj, *layer.v_proj):
        assert projection.weight.shape == (32, 256)
        assert 0.99 * bound < projection.weight.abs().max() <= bound
    assert layer.extra_repr() == "embed_dim=256, num_heads=8, order=3, num_kv_heads=1"
