"""Layers whose heads have different orders: what they compute, decode, save and refuse."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.nn import TensorAttention
from separatrix.nn.head_groups import kv_heads_of_sets
from tests.contracts.derivatives import same_gradients
from tests.contracts.literal_forms import SCORES, literal_attention
from tests.draws import draw, seeded

ORDERS = [2, 2, 3, 3]


def mixed(order=ORDERS, **options) -> TensorAttention:
    return TensorAttention(24, 4, order, dtype=torch.float64, generator=seeded(), **options)


def literal_heads(layer: TensorAttention, x: Tensor, padding: Tensor | None = None) -> list[Tensor]:
    """The outputs of the heads of a causal call, head by head: each has its own order, keys and windows."""
    shared = layer.num_heads // layer.num_kv_heads
    heads = []
    for head, order in enumerate(layer.orders):
        width = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
        q = layer.q_proj(x)[..., width]
        keys, values = [], []
        for m in range(order - 1):
            with_set = [h for h, other in enumerate(layer.orders) if other > m + 1]
            place = with_set.index(head) // shared
            own = slice(place * layer.head_dim, (place + 1) * layer.head_dim)
            keys.append(layer.k_proj[m](x)[..., own])
            values.append(layer.v_proj[m](x)[..., own])
        if layer.rotary is not None:
            how = {"base": layer.rotary, "form": layer.form}
            q = sx.nn.rotary(q, 0, order, **how)
            keys = [sx.nn.rotary(key, m, order, **how) for m, key in enumerate(keys, 1)]
        bias: Tensor | float = 0.0
        if layer.alibi is not None:
            i, *j = torch.meshgrid(*[torch.arange(x.shape[-2], dtype=torch.float64)] * order, indexing="ij")
            slope = 2.0 ** (-8 * (head + 1) / layer.num_heads)
            bias = -slope * sum(factor * (i - j_m) for factor, j_m in zip(layer.alibi, j, strict=False))
        masks = None if padding is None else [~padding] * (order - 1)
        windows = None if layer.windows is None else layer.windows[: order - 1]
        options = {"scale": 1 / layer.head_dim, "is_causal": True, "windows": windows, "key_masks": masks}
        heads.append(literal_attention(SCORES[layer.form], q, keys, values, bias=bias, **options)[0])
    return heads


def literal_layer(layer: TensorAttention, x: Tensor, padding: Tensor | None = None) -> Tensor:
    return layer.out_proj(torch.cat(literal_heads(layer, x, padding), -1))


CASES = [
    {},
    {"order": [2, 3, 3, 4]},
    {"order": [3, 3, 4, 4], "num_kv_heads": 2},
    {"num_kv_heads": 2, "rotary": 100.0},
    {"windows": 3},
    {"windows": [None, 4]},
    {"form": "pairwise", "rotary": 100.0},
    {"form": "determinant", "windows": [4, None]},
    {"alibi": True},
    {"form": "pairwise", "alibi": [0.5, 1.0], "num_kv_heads": 2},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_every_head_has_its_order(options):
    layer, x = mixed(**options), draw(2, 6, 24, seed=1)
    torch.testing.assert_close(layer(x, is_causal=True), literal_layer(layer, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_decoding(options):
    layer, x = mixed(**options), draw(2, 13, 24, seed=1)
    cache = layer.cache(2)
    with torch.no_grad():
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 7), (7, 11), (11, 13))]
        whole = layer(x, is_causal=True)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-11)


def test_a_saved_cache_goes_on():
    layer, x = mixed(windows=[None, 3], sinks=1), draw(2, 9, 24)
    cache, twin = layer.cache(2), layer.cache(2)
    with torch.no_grad():
        layer.decode(x[:, :6], cache)
        twin.load_state_dict(cache.state_dict())
        for both in (cache, twin):
            both.reorder([1, 0, 1])
        rest = x[[1, 0, 1]][:, 6:]
        assert torch.equal(layer.decode(rest, cache), layer.decode(rest, twin))
    with pytest.raises(sx.ArgumentError, match="set_heads"):
        TensorAttention(24, 4, 3, windows=[None, 3], sinks=1, dtype=torch.float64).decode(x, layer.cache(2))


def test_padding_and_packed_sequences():
    layer, x = mixed(), draw(2, 6, 24)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    out = layer(x, key_padding_mask=padding, is_causal=True)
    torch.testing.assert_close(out, literal_layer(layer, x, padding), rtol=0, atol=1e-12)
    packed = layer(torch.cat([x[0], x[1, :4]]), cu_seqlens=torch.tensor([0, 6, 10]), is_causal=True)
    expected = torch.cat([literal_layer(layer, x[0]), literal_layer(layer, x[1, :4])])
    torch.testing.assert_close(packed, expected, rtol=0, atol=1e-12)


def test_gradients_are_those_of_the_definition():
    layer, x = mixed(), draw(2, 5, 24).requires_grad_()
    leaves = [x, *(parameter for name, parameter in layer.named_parameters() if name.endswith("weight"))]
    same_gradients(lambda *_: (layer(x, is_causal=True),), lambda *_: (literal_layer(layer, x),), leaves, error=1e-12)


def test_projections_are_of_the_heads_that_have_the_set():
    layer = mixed([2, 3, 3, 4])
    assert [projection.out_features for projection in layer.k_proj] == [24, 18, 6]
    assert [projection.out_features for projection in layer.v_proj] == [24, 18, 6]
    assert (layer.order, layer.orders) == (4, (2, 3, 3, 4))
    assert kv_heads_of_sets((2, 2, 4, 4), 2) == [2, 1, 1]


def test_configuration():
    layer = mixed(qk_norm=True, head_norm=True)
    config = json.loads(json.dumps(layer.config()))
    assert config["order"] == ORDERS
    twin = TensorAttention.from_config(config, dtype=torch.float64)
    twin.load_state_dict(layer.state_dict())
    x = draw(2, 5, 24)
    assert torch.equal(twin(x), layer(x))
    assert "order=[2, 2, 3, 3]" in repr(layer)
    with pytest.raises(sx.ArgumentError, match=r"a layer with order = 3, as in this layer, got weights with"):
        TensorAttention(24, 4, 3, qk_norm=True, head_norm=True).load_state_dict(layer.state_dict())
    assert mixed([3, 3, 3, 3]).config() == mixed(3).config()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": [2, 3]}, r"order: expected one integer, or 4, one for each head, got \[2, 3\]"),
        ({"order": [3, 2, 3, 3]}, "order: expected the orders of the heads in ascending order"),
        ({"order": [1, 2, 3, 3]}, r"order\[0\]: expected an integer >= 2"),
        ({"order": [2, 3, 3, 3], "num_kv_heads": 2}, "num_kv_heads: expected a number for which the heads of order"),
        ({"bound": 1.0}, "order: expected one order for all heads of a layer with a bound"),
        ({"form": "determinant", "order": [3, 3, 4, 4]}, "no multiple of 4"),
    ],
)
def test_what_the_constructor_refuses(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        mixed(**options)


def test_top_tuples_need_one_order():
    with pytest.raises(sx.ArgumentError, match="heads of different orders have no common shape"):
        mixed().top_tuples(draw(5, 24))
