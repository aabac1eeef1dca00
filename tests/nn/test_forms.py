"""Layers with score forms and ALiBi: their outputs, decoding, saving and errors."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.nn import TensorAttention
from tests.contracts.literal_forms import SCORES, literal_attention
from tests.draws import draw


def literal_layer(layer: TensorAttention, x: Tensor, bias: Tensor | float = 0.0, **options: object) -> Tensor:
    q, keys, values = layer.project(x, x, x)
    scale = 1 / layer.head_dim if layer.scale is None else layer.scale
    windows = layer.windows
    gqa = layer.num_kv_heads < layer.num_heads
    options = {"scale": scale, "windows": windows, "enable_gqa": gqa, "bias": bias, **options}
    heads, _ = literal_attention(SCORES[layer.form], q, keys, values, **options)
    return layer.out_proj(heads.transpose(-3, -2).flatten(-2))


def distances_bias(layer: TensorAttention, length: int) -> Tensor:
    """The bias -slope_h sum_m factor_m (i - j_m), (heads, length, length, ...)."""
    slopes = 2.0 ** (-8 * torch.arange(1, layer.num_heads + 1, dtype=torch.float64) / layer.num_heads)
    total = torch.zeros(layer.num_heads, *[length] * layer.order, dtype=torch.float64)
    places = torch.arange(length, dtype=torch.float64)
    for m, factor in enumerate(layer.alibi):
        axes = [1] * layer.order
        axes[0], axes[m + 1] = length, length
        total = total - factor * slopes.reshape(-1, *[1] * layer.order) * (places[:, None] - places).reshape(axes)
    return total


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("form", ["product", "pairwise", "determinant"])
@pytest.mark.parametrize("options", [{}, {"windows": 3, "num_kv_heads": 1}, {"scale": 0.7}])
def test_a_form_in_a_layer(form, order, options):
    layer = TensorAttention(24, 2, order, form=form, dtype=torch.float64, **options)
    x = draw(2, 5, 24)
    torch.testing.assert_close(layer(x, is_causal=True), literal_layer(layer, x, is_causal=True), rtol=0, atol=1e-12)
    if layer.windows is None:
        torch.testing.assert_close(layer(x), literal_layer(layer, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["product", "pairwise", "determinant"])
@pytest.mark.parametrize("alibi", ["all", "first"])
def test_alibi_in_a_layer(form, order, alibi):
    factors = True if alibi == "all" else [2.0, 0.0][: order - 1]
    layer = TensorAttention(24, 4, order, form=form, alibi=factors, num_kv_heads=2, dtype=torch.float64)
    x = draw(2, 6, 24)
    expected = literal_layer(layer, x, distances_bias(layer, 6), is_causal=True)
    torch.testing.assert_close(layer(x, is_causal=True), expected, rtol=0, atol=1e-12)
    later = layer(x[:, 4:], x, is_causal=True, query_offset=4)
    torch.testing.assert_close(later, expected[:, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["product", "pairwise", "determinant"])
@pytest.mark.parametrize("alibi", [None, True])
@pytest.mark.parametrize("windows", [None, [3, 5]])
@pytest.mark.parametrize("rotary", [None, 100.0])
def test_decoding(form, alibi, windows, rotary):
    options = {"form": form, "alibi": alibi, "windows": windows, "rotary": rotary}
    layer = TensorAttention(24, 4, 3, num_kv_heads=2, dtype=torch.float64, **options)
    x = draw(2, 13, 24)
    cache = layer.cache(2)
    with torch.no_grad():
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 7), (7, 11), (11, 13))]
        whole = layer(x, is_causal=True)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", ["pairwise", "determinant"])
def test_rotary_positions_are_relative(form):
    layer = TensorAttention(18, 3, 3, form=form, rotary=100.0, windows=4, dtype=torch.float64)
    x = draw(2, 12, 18)
    shifted = layer(x[:, 5:], is_causal=True)[:, 4:]
    torch.testing.assert_close(layer(x, is_causal=True)[:, 9:], shifted, rtol=0, atol=1e-11)
    plain = TensorAttention(18, 3, 3, form=form, windows=4, dtype=torch.float64)
    plain.load_state_dict({**layer.state_dict(), "_extra_state": plain.get_extra_state()})
    assert (plain(x, is_causal=True) - layer(x, is_causal=True)).abs().max() > 1e-3


def test_configuration():
    layer = TensorAttention(24, 4, form="determinant", alibi=[1.0, 0.5], order=3)
    config = json.loads(json.dumps(layer.config()))
    assert (config["form"], config["alibi"]) == ("determinant", [1.0, 0.5])
    twin = TensorAttention.from_config(config)
    twin.load_state_dict(layer.state_dict())
    assert "form='determinant', alibi=(1.0, 0.5)" in repr(twin)
    for options in ({"form": "pairwise", "alibi": [1.0, 0.5]}, {"form": "determinant"}, {"alibi": [1.0, 0.5]}, {}):
        with pytest.raises(sx.ArgumentError, match=r"weights of a layer with (form|alibi) ="):
            TensorAttention(24, 4, order=3, **options).load_state_dict(layer.state_dict())


def test_weights_saved_without_a_form_are_of_the_product_form():
    state = TensorAttention(24, 4, order=3).state_dict()
    assert "form" not in bytes(state["_extra_state"].tolist()).decode()
    with pytest.raises(sx.ArgumentError, match="form = pairwise, as in this layer, got weights with form = product"):
        TensorAttention(24, 4, order=3, form="pairwise").load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "wedge"}, "form: expected 'product', 'pairwise' or 'determinant', got 'wedge'"),
        ({"form": "determinant", "num_heads": 3}, "head_dim = 8, which is no multiple of 3"),
        ({"alibi": True, "bound": 1.0, "tolerance": 0.1}, "alibi: expected None for a layer with a tolerance"),
        ({"alibi": [1.0]}, "alibi: expected None, True, or 2 numbers"),
        ({"alibi": 0.5}, "alibi: expected None, True, or 2 numbers"),
        ({"alibi": [1.0, float("inf")]}, r"alibi\[1\]: expected a finite number"),
        ({"alibi": True, "scale": 0.0}, "alibi: expected None for scale = 0"),
    ],
)
def test_arguments_that_the_constructor_refuses(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        TensorAttention(**{"embed_dim": 24, "num_heads": 4, "order": 3, **options})


def test_alibi_is_for_causal_calls():
    layer = TensorAttention(24, 4, order=3, alibi=True, windows=[3, None])
    with pytest.raises(sx.ArgumentError, match="is_causal: expected True for a layer with alibi"):
        layer(torch.zeros(2, 5, 24))
    windowed = TensorAttention(24, 4, order=3, alibi=True, windows=3)
    windowed(torch.zeros(2, 5, 24))
