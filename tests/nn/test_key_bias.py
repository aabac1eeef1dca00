"""Layers with a learned bias of low rank on tuples of keys: what they compute, decode, save and refuse."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.nn import TensorAttention
from tests.contracts.literal_forms import SCORES, literal_attention
from tests.draws import draw, seeded
from tests.pairwise import pairwise


def biased(order=3, key_bias=2, **options) -> TensorAttention:
    """A layer with a nonzero learned bias; initially the bias is zero."""
    layer = TensorAttention(24, 4, order, key_bias=key_bias, dtype=torch.float64, generator=seeded(), **options)
    with torch.no_grad():
        layer.bias_proj[0].weight.copy_(draw(*layer.bias_proj[0].weight.shape, seed=5))
    return layer


def literal_layer(layer: TensorAttention, x: Tensor, **options: object) -> Tensor:
    """Causal attention with the scores of a layer without the bias, and the bias of all tuples, as a tensor."""
    shared = layer.num_heads // layer.num_kv_heads
    plain = TensorAttention(24, 4, layer.order, num_kv_heads=layer.num_kv_heads, dtype=torch.float64)
    plain.load_state_dict(
        {name: weight for name, weight in layer.state_dict().items() if name in plain.state_dict()}
        | {"_extra_state": plain.get_extra_state()}
    )
    q, keys, values = plain.project(x, x, x)
    if layer.rotary is not None:
        how = {"base": layer.rotary, "form": layer.form}
        q, keys = sx.forms.rotary(q, keys, **how)
    letters = "abc"[: layer.order - 1]
    factors = [
        project(x).unflatten(-1, (layer.num_kv_heads, -1)).transpose(-3, -2).repeat_interleave(shared, -3)
        for project in layer.bias_proj
    ]
    bias = torch.einsum(",".join(f"...{letter}r" for letter in letters) + f"->...{letters}", *factors)
    how = {"scale": 1 / layer.head_dim, "enable_gqa": shared > 1, "windows": layer.windows, **options}
    heads, _ = literal_attention(SCORES[layer.form], q, keys, values, bias=bias.unsqueeze(-layer.order), **how)
    return layer.out_proj(heads.transpose(-3, -2).flatten(-2))


CASES = pairwise([2, 3, 4], ["product", "pairwise"], [4, 2], [None, 100.0], [None, 3])


@pytest.mark.parametrize(("order", "form", "num_kv_heads", "rotary", "windows"), CASES)
def test_the_bias_is_added_to_the_scores(order, form, num_kv_heads, rotary, windows):
    layer = biased(order, form=form, num_kv_heads=num_kv_heads, rotary=rotary, windows=windows)
    x = draw(2, 6, 24, seed=1)
    expected = literal_layer(layer, x, is_causal=True)
    torch.testing.assert_close(layer(x, is_causal=True), expected, rtol=0, atol=1e-12)
    cache = layer.cache(2)
    with torch.no_grad():
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 3), (3, 4), (4, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=1e-11)


def test_packed_sequences_and_orders():
    layer, x = biased([2, 2, 3, 3], rotary=100.0), draw(9, 24)
    packed = layer(x, cu_seqlens=torch.tensor([0, 4, 9]), is_causal=True)
    parts = [layer(part, is_causal=True) for part in (x[:4], x[4:])]
    torch.testing.assert_close(packed, torch.cat(parts), rtol=0, atol=1e-12)


def test_the_bias_is_initially_zero_and_learns():
    plain = TensorAttention(24, 4, 3, dtype=torch.float64, generator=seeded())
    layer = TensorAttention(24, 4, 3, key_bias=2, dtype=torch.float64, generator=seeded())
    x = draw(2, 6, 24)
    torch.testing.assert_close(layer(x), plain(x), rtol=0, atol=1e-14)
    layer(x).square().sum().backward()
    assert layer.bias_proj[0].weight.grad.abs().max() > 0


def test_gradients_are_those_of_the_definition():
    layer, x = biased(), draw(2, 5, 24)
    weights = [layer.bias_proj[0].weight, layer.bias_proj[1].weight, layer.out_proj.weight]
    incoming = draw(2, 5, 24, seed=2)
    found = torch.autograd.grad(layer(x, is_causal=True), weights, incoming)
    expected = torch.autograd.grad(literal_layer(layer, x, is_causal=True), weights, incoming)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_top_tuples_have_the_bias():
    layer, x = biased(), draw(5, 24)
    top = layer.top_tuples(x, k=25)
    assert top.weights.shape == (4, 5, 25)
    torch.testing.assert_close(top.weights.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    without = TensorAttention(24, 4, 3, dtype=torch.float64, generator=seeded()).top_tuples(x, k=25)
    assert (top.lse - without.lse).abs().max() > 1e-3


def test_configuration():
    layer = biased()
    config = json.loads(json.dumps(layer.config()))
    twin = TensorAttention.from_config(config, dtype=torch.float64)
    twin.load_state_dict(layer.state_dict())
    x = draw(2, 5, 24)
    assert torch.equal(twin(x), layer(x))
    assert "key_bias=2" in repr(layer)
    with pytest.raises(sx.ArgumentError, match="weights of a layer with key_bias = 0"):
        TensorAttention(24, 4, 3).load_state_dict(layer.state_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_bias": -1}, "key_bias: expected an integer >= 0"),
        ({"key_bias": 2, "scale": 0.0}, "key_bias: expected 0 for scale = 0"),
    ],
)
def test_what_the_constructor_refuses(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        TensorAttention(24, 4, 3, **options)


def test_the_map_checks_its_factors():
    q, key = draw(5, 4), draw(6, 4)
    with pytest.raises(sx.ArgumentError, match=r"key_factors: expected 2, one for each key set"):
        sx.forms.key_bias(q, [key, key], [draw(6, 1)], scale=1.0)
    with pytest.raises(sx.ArgumentError, match=r"key_factors\[0\]: expected"):
        sx.forms.key_bias(q, [key, key], [draw(5, 1), draw(6, 1)], scale=1.0)
