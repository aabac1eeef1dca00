"""The errors of the layer, at construction and in calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from separatrix import ArgumentError
from separatrix.nn import TensorAttention
from tests.draws import seeded


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        *(
            (name, {name: bad})
            for name in ("embed_dim", "num_heads", "kdim", "vdim", "num_kv_heads")
            for bad in (0, -2, 4.0, True, "4")
        ),
        *(("order", {"order": bad}) for bad in (1, 0, -3, 3.0, True)),
        ("embed_dim", {"embed_dim": 9}),
        ("num_kv_heads", {"embed_dim": 12, "num_heads": 6, "num_kv_heads": 4}),
        ("num_kv_heads", {"num_kv_heads": 4}),
        ("dropout", {"dropout": 0.1}),
        ("add_bias_kv", {"add_bias_kv": True}),
        ("add_zero_attn", {"add_zero_attn": True}),
        *(("scale", {"scale": bad}) for bad in ("big", float("nan"), float("inf"), True)),
        *(("windows", {"windows": bad}) for bad in (0, -1, 1.5, [1], [1, 2, 3], "12")),
        ("windows[1]", {"windows": [1, 0]}),
    ],
    ids=str,
)
def test_bad_arguments_of_the_layer(argument, changed):
    with pytest.raises(ArgumentError) as caught:
        TensorAttention(**({"embed_dim": 8, "num_heads": 2} | changed))
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "changed", "said"),
    [
        ("query", {"query": None}, "expected a tensor, got NoneType"),
        ("query", {"query": torch.ones(8)}, r"shape \(\.\.\., length, width\)"),
        ("query", {"query": torch.ones(2, 5, 7)}, "a last dimension of 8"),
        ("query", {"query": torch.ones(2, 5, 8, dtype=torch.float64)}, "the layer's type torch.float32"),
        ("query", {"query": torch.ones(2, 5, 8, device="meta")}, "the layer's device cpu, got meta"),
        ("key", {"key": None}, r"a last dimension of 6, got None, which stands for query of shape \(2, 5, 8\)"),
        ("key", {"key": torch.ones(3, 4, 6)}, r"the query's batch \(2,\)"),
        ("key", {"key": torch.ones(4, 6)}, r"the query's batch \(2,\)"),
        ("value", {"value": None}, r"a last dimension of 3, got None, which stands for key of shape \(2, 4, 6\)"),
        ("value", {"value": torch.ones(2, 5, 3)}, r"the key's batch and length \(2, 4\)"),
        ("key_padding_mask", {"key_padding_mask": torch.zeros(2, 4)}, "True where a key is ignored, got torch.float32"),
        ("key_padding_mask", {"key_padding_mask": [[True]]}, "got 1 entries"),
        ("key_padding_mask", {"key_padding_mask": torch.zeros(2, 5, dtype=torch.bool)}, r"length \(2, 4\)"),
        ("key_padding_mask", {"key_padding_mask": torch.zeros(2, 4, dtype=torch.bool, device="meta")}, "device cpu"),
        ("key", {"is_causal": True}, "the query's length 5"),
        ("is_causal", {"is_causal": "yes", "query_offset": 1}, "True or False"),
        ("query_offset", {"query_offset": 1.5}, "an integer"),
        *(("need_weights", {"need_weights": given}, "MultiheadTensorAttention") for given in (True, False)),
        (
            "attn_mask",
            {"attn_mask": torch.ones(5, 4, dtype=torch.bool)},
            r"windows or key_padding_mask\), got",
        ),
    ],
)
def test_bad_arguments_of_the_call(argument, changed, said):
    layer = TensorAttention(8, 2, kdim=6, vdim=3, generator=seeded())
    good = {"query": torch.ones(2, 5, 8), "key": torch.ones(2, 4, 6), "value": torch.ones(2, 4, 3)}
    with pytest.raises(ArgumentError, match=said) as caught:
        layer(**(good | changed))
    assert caught.value.argument == argument


def test_sizes_may_be_integers_of_numpy():
    sizes = {"embed_dim": 8, "num_heads": 4, "order": 3, "kdim": 5, "vdim": 6, "num_kv_heads": 2, "windows": 4}
    layer = TensorAttention(**{name: np.int64(size) for name, size in sizes.items()})
    assert layer.config() == TensorAttention(**sizes).config()
    assert {type(getattr(layer, name)) for name in sizes if name != "windows"} == {int}


def test_an_unknown_method():
    with pytest.raises(ArgumentError, match="method: expected"):
        TensorAttention(8, 2, method="guess", generator=seeded())(torch.ones(2, 8))


def test_defaults_of_pytorchs_layer_are_accepted():
    layer = TensorAttention(8, 2, dropout=0.0, add_bias_kv=False, add_zero_attn=False, generator=seeded())
    x = torch.ones(2, 5, 8)
    assert torch.equal(layer(x, attn_mask=None), layer(x))
