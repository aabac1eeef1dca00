"""Layers with `qk_norm`, `head_norm` and `learned_scale`: their outputs, decoding, saving and errors."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor, nn

import separatrix as sx
from separatrix.attention.reference import tensor_attention as reference_attention
from separatrix.nn import TensorAttention
from tests.draws import draw

NORMS = {"qk_norm": True, "head_norm": True, "learned_scale": True}
RECOMMENDED = {"qk_norm": True, "head_norm": True}


def with_drawn_gains(layer: TensorAttention) -> TensorAttention:
    generator = torch.Generator().manual_seed(7)
    for parameter in layer.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)
    return layer


def literal_layer(layer: TensorAttention, x: Tensor) -> Tensor:
    """The causal self-attention of a layer on x (L, embed_dim), head by head from the definition."""
    d, group = layer.head_dim, layer.num_heads // layer.num_kv_heads

    def normalised(vectors: Tensor, gain: Tensor) -> Tensor:
        return vectors / vectors.square().mean(-1, keepdim=True).sqrt() * gain

    outputs = []
    for head in range(layer.num_heads):
        mine, of_keys = slice(head * d, head * d + d), slice(head // group * d, head // group * d + d)
        query = layer.q_proj(x)[:, mine]
        keys = [projection(x)[:, of_keys] for projection in layer.k_proj]
        values = [projection(x)[:, of_keys] for projection in layer.v_proj]
        if layer.qk_norm:
            query = normalised(query, layer.q_gain[mine])
            keys = [normalised(key, gain[of_keys]) for key, gain in zip(keys, layer.k_gain, strict=True)]
        scale = 1 / d if layer.scale is None else layer.scale
        if layer.learned_scale:
            scale = scale * float(layer.log_scale.detach()[head].exp())
        out, _ = reference_attention(query, keys, values, is_causal=True, scale=scale)
        outputs.append(normalised(out, layer.out_gain[mine]) if layer.head_norm else out)
    return layer.out_proj(torch.cat(outputs, -1))


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("names", [["qk_norm"], ["head_norm"], ["learned_scale"], list(NORMS)])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_the_layer_is_its_definition(order, names, kv_heads):
    options = {"num_kv_heads": kv_heads, "scale": 0.6, **dict.fromkeys(names, True)}
    layer = with_drawn_gains(TensorAttention(12, 4, order, dtype=torch.float64, **options))
    x = draw(5, 12)
    torch.testing.assert_close(layer(x, is_causal=True), literal_layer(layer, x), rtol=0, atol=1e-9)


def test_gradients_reach_every_gain():
    layer = with_drawn_gains(TensorAttention(12, 2, 3, dtype=torch.float64, **NORMS))
    x = draw(5, 12).requires_grad_()
    parameters = [x, *layer.parameters()]
    actual = torch.autograd.grad(layer(x, is_causal=True).square().sum(), parameters)
    layer.log_scale.requires_grad_(False)  # the definition takes the scale as a number
    without = [parameter for parameter in parameters if parameter is not layer.log_scale]
    expected = torch.autograd.grad(literal_layer(layer, x).square().sum(), without)
    kept = [grad for grad, parameter in zip(actual, parameters, strict=True) if parameter is not layer.log_scale]
    for ours, theirs in zip(kept, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)
    steps = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            layer.log_scale[1] += step
            steps.append(float(layer(x, is_causal=True).square().sum()))
            layer.log_scale[1] -= step
    index = next(i for i, parameter in enumerate(parameters) if parameter is layer.log_scale)
    assert float(actual[index][1]) == pytest.approx((steps[0] - steps[1]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"windows": [3, 5], "rotary": 100.0},
        {"form": "determinant", "alibi": True},
        {"bound": 1.0, "tolerance": 1e-9},
    ],
)
def test_decoding(options):
    norms = {"head_norm": True} if "bound" in options else {"qk_norm": True, "head_norm": True, "learned_scale": True}
    tolerance = 1e-4 if "tolerance" in options else 1e-10
    layer = with_drawn_gains(TensorAttention(24, 4, 3, dtype=torch.float64, **options, **norms))
    x, cache = draw(2, 13, 24), layer.cache(2)
    with torch.no_grad():
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 11), (11, 13))]
        whole = layer(x, is_causal=True)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=tolerance)


def overwrite(module: nn.Module) -> None:
    """The initialisation that nanoGPT applies to all modules: weights of standard deviation 0.02, and zero biases."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0.0, 0.02)
        nn.init.zeros_(module.bias)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_first_outputs_have_a_sensible_size_after_nanogpt_has_drawn_the_weights(order):
    torch.manual_seed(order)
    width, length = 64, 48
    scale = (width // 4) ** -0.5
    sizes = {}
    for name, norms in (("plain", {}), ("recommended", RECOMMENDED)):
        layer = TensorAttention(width, 4, order, scale=scale, **norms)
        layer.apply(overwrite)
        with torch.no_grad():
            sizes[name] = float(layer(torch.randn(2, length, width), is_causal=True)[:, length // 2 :].std())
    expected = 0.02 * math.sqrt(width)  # unit heads times weights of standard deviation 0.02
    assert expected / 1.5 < sizes["recommended"] < expected * 1.5
    assert sizes["plain"] < sizes["recommended"] / 4 ** (order - 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_and_autocast_keep_their_dtype(dtype):
    layer = TensorAttention(16, 2, 3, dtype=dtype, **NORMS)
    assert layer(draw(2, 5, 16).to(dtype)).dtype == dtype
    wide = TensorAttention(16, 2, 3, **NORMS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = wide(draw(2, 5, 16).float())
    assert out.dtype == torch.bfloat16
    assert bool(out.isfinite().all())


def test_a_query_with_nothing_to_attend_gives_the_output_bias_and_finite_gradients():
    layer = with_drawn_gains(TensorAttention(8, 2, 3, dtype=torch.float64, **NORMS))
    x = draw(2, 4, 8).requires_grad_()
    mask = torch.tensor([[True] * 4, [False] * 4])
    out = layer(x, key_padding_mask=mask)
    assert torch.equal(out[0], layer.out_proj.bias.expand(4, 8))
    out.square().sum().backward()
    assert bool(x.grad.isfinite().all())
    assert bool((x.grad[0] == 0).all())


def test_configuration():
    layer = with_drawn_gains(TensorAttention(8, 2, **NORMS))
    config = json.loads(json.dumps(layer.config()))
    twin = TensorAttention.from_config(config)
    twin.load_state_dict(layer.state_dict())
    assert twin.config() == config
    assert all(config[name] is True for name in NORMS)
    assert "qk_norm=True, head_norm=True, learned_scale=True" in repr(twin)
    for name in NORMS:
        other = TensorAttention(8, 2, **{**NORMS, name: False})
        with pytest.raises(sx.ArgumentError, match=f"weights of a layer with {name} = False"):
            other.load_state_dict(layer.state_dict())


def test_weights_of_layers_without_norms_are_saved_as_before():
    state = TensorAttention(8, 2).state_dict()
    assert not [name for name in NORMS if name in bytes(state["_extra_state"].tolist()).decode()]
    assert {name.split(".")[0] for name in state} == {"q_proj", "k_proj", "v_proj", "out_proj", "_extra_state"}
    TensorAttention(8, 2).load_state_dict(state)


def test_reset_parameters_sets_gains_to_one():
    layer = with_drawn_gains(TensorAttention(8, 2, **NORMS))
    layer.reset_parameters()
    for gain in (layer.q_gain, *layer.k_gain, layer.out_gain):
        assert torch.equal(gain, torch.ones(8))
    assert torch.equal(layer.log_scale, torch.zeros(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qk_norm": 1}, "qk_norm: expected True or False, got 1"),
        ({"head_norm": None}, "head_norm: expected True or False, got None"),
        ({"qk_norm": True, "bound": 1.0}, "qk_norm: expected False for a layer with a bound"),
        ({"learned_scale": True, "bound": 1.0}, "learned_scale: expected False for a layer with a bound"),
        ({"learned_scale": True, "form": "pairwise"}, "learned_scale: expected False for form='pairwise'"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        TensorAttention(8, 2, **options)
