"""The tuples with the largest weights in a layer, and key sets with separate sources."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention.forms.rotary_positions import rotate_heads
from separatrix.attention.reference import masked_scores
from separatrix.nn import TensorAttention
from tests.contracts.literal_forms import SCORES, spread
from tests.nn.test_forms import distances_bias, draw


def literal_weights(layer: TensorAttention, x: Tensor, padding: Tensor | None = None) -> Tensor:
    """All weights of causal self-attention, (batch, heads, L, L, ...), from the scores of all tuples."""
    q, keys, _ = layer.project(x, x, x)
    q, keys = rotate_heads(q, keys, base=layer.rotary, form=layer.form, query_start=0)
    keys = [key.repeat_interleave(layer.num_heads // layer.num_kv_heads, -3) for key in keys]
    scale = layer.bound or layer.scale or 1 / layer.head_dim
    S = scale * SCORES[layer.form](spread(q, keys))
    if layer.alibi is not None:
        S = S + distances_bias(layer, x.shape[-2])
    masks = None if padding is None else [~padding.unsqueeze(-2)] * len(keys)
    zeros = [torch.zeros_like(key) for key in keys]
    S = S + masked_scores(torch.zeros_like(q), zeros, is_causal=True, windows=layer.windows, key_masks=masks)
    return S.flatten(-len(keys)).softmax(-1).unflatten(-1, S.shape[-len(keys) :])


@pytest.mark.parametrize(
    "options",
    [
        {"order": 2},
        {"num_kv_heads": 1, "windows": [3, 4]},
        {"order": 4, "scale": 0.7},
        {"form": "pairwise", "rotary": 100.0},
        {"form": "determinant", "alibi": True, "qk_norm": True},
        {"bound": 2.0},
        {"bound": 2.0, "tolerance": 1e-6},
    ],
)
def test_weights_are_the_largest_of_all(options):
    layer = TensorAttention(12, 2, **{"order": 3, **options}, dtype=torch.float64)
    x = draw(2, 5, 12)
    padding = None if layer.order == 4 else torch.tensor([[False] * 5, [False, True, False, False, True]])
    top = layer.top_tuples(x, k=3, key_padding_mask=padding, is_causal=True)
    weights = literal_weights(layer, x, padding)
    expected, _ = weights.flatten(-(layer.order - 1)).topk(3, -1)
    torch.testing.assert_close(top.weights, expected, rtol=0, atol=1e-12)
    listed = top.weights > 0
    axes = [axis.reshape(-1, *[1] * (3 - place)) for place, axis in enumerate(map(torch.arange, (2, 2, 5, 3)))]
    chosen = weights[(*axes[:3], *top.indices.clamp(min=0).unbind(-1))]
    torch.testing.assert_close(chosen[listed], top.weights[listed], rtol=0, atol=1e-12)


def test_top_tuples_of_other_keys():
    layer = TensorAttention(8, 2, 3, kdim=6, vdim=5, dtype=torch.float64)
    query, key = draw(3, 8), draw(4, 6, seed=1)
    top = layer.top_tuples(query, key, k=2)
    q, keys, _ = layer.project(query, key, draw(4, 5))
    expected = sx.top_tuples(q, keys, k=2)
    assert torch.equal(top.indices, expected.indices)
    with pytest.raises(sx.ArgumentError, match="k: expected an integer >= 1"):
        layer.top_tuples(query, key, k=0)


@pytest.mark.parametrize("options", [{}, {"form": "pairwise"}, {"bound": 1.0, "tolerance": 1e-3}, {"qk_norm": True}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_each_key_set_may_have_a_source_of_its_own(options, batch_first):
    layer = TensorAttention(8, 2, 3, kdim=6, vdim=5, batch_first=batch_first, dtype=torch.float64, **options)
    query, key, value = draw(2, 3, 8), [draw(2, 4, 6, seed=1), draw(2, 7, 6, seed=2)], [draw(2, 4, 5), draw(2, 7, 5)]
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[1, 4:] = True
    q, _, _ = layer.project(query, key, value)
    keys, values = ([layer.project(query, key[m], value[m])[kind][m] for m in range(2)] for kind in (1, 2))
    masks = [None, ~mask.unsqueeze(-2)]
    heads = layer._attend(q, keys, values, is_causal=False, query_offset=0, key_masks=masks)
    expected = layer.out_proj(heads.transpose(-3, -2).flatten(-2))
    if not batch_first:
        query, key, value = query.movedim(0, -2), *([x.movedim(0, -2) for x in sets] for sets in (key, value))
        expected = expected.movedim(0, -2)
    torch.testing.assert_close(layer(query, key, value, key_padding_mask=[None, mask]), expected, rtol=0, atol=1e-12)


def test_equal_sources_are_one_source():
    layer = TensorAttention(8, 2, 3, dtype=torch.float64)
    query, key = draw(2, 3, 8), draw(2, 4, 8, seed=1)
    mask = torch.tensor([[False] * 4, [True, False, False, False]])
    expected = layer(query, key, key_padding_mask=mask)
    torch.testing.assert_close(layer(query, [key, key], key_padding_mask=mask), expected, rtol=0, atol=0)
    torch.testing.assert_close(layer(query, [key, key], key, key_padding_mask=[mask, mask]), expected, rtol=0, atol=0)
    gradients = [
        torch.autograd.grad(layer(query, source).sum(), layer.k_proj[1].weight)[0] for source in (key, [key] * 2)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": [draw(2, 4, 8)]}, "key: expected one tensor, or 2 of them, one for each key set, got 1 entries"),
        ({"key": [draw(2, 4, 8), draw(2, 4, 7)]}, r"key\[1\]: expected a last dimension of 8"),
        ({"key": [draw(2, 4, 8), draw(1, 4, 8)]}, r"key\[1\]: expected the query's batch"),
        ({"key": [draw(2, 4, 8), draw(2, 5, 8)], "value": draw(2, 4, 8)}, r"value\[1\]: expected the key's batch"),
        ({"key_padding_mask": [None]}, "key_padding_mask: expected one tensor, or 2 of them"),
        ({"key_padding_mask": [None, torch.ones(2, 2, dtype=torch.bool)]}, r"key_padding_mask\[1\]: expected the key"),
        ({"key": [draw(2, 3, 8)] * 2, "cu_seqlens": torch.tensor([0, 3])}, "key: expected one tensor for packed"),
    ],
)
def test_refusals_of_sources(arguments, message):
    layer = TensorAttention(8, 2, 3, dtype=torch.float64)
    with pytest.raises(sx.ArgumentError, match=message):
        layer(draw(2, 3, 8), **arguments)
