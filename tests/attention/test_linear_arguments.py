"""Arguments that linear attention refuses."""

from __future__ import annotations

import pytest
import torch

from separatrix import ArgumentError, linear_attention
from separatrix.attention.features import random_positive

DRAWN = random_positive(3, 7, torch.Generator().manual_seed(3))


def _arguments(**changed: object) -> dict[str, object]:
    return {"query": torch.ones(2, 4, 3), "key": torch.ones(2, 5, 3), "value": torch.ones(2, 5, 2)} | changed


@pytest.mark.parametrize(
    ("argument", "changed", "said"),
    [
        ("query", {"query": [[1.0]]}, "expected a tensor, got list"),
        ("key", {"key": torch.ones(3)}, r"shape \(..., length, dimension\), got shape \(3,\)"),
        ("query", {"query": torch.ones(4, 3, dtype=torch.int64)}, "float64, float32, bfloat16 or float16"),
        ("query", {"query": torch.ones(4, 3, dtype=torch.complex64)}, "float64, float32, bfloat16 or float16"),
        ("value", {"value": torch.ones(5, 2, dtype=torch.float64)}, "the query's dtype torch.float32"),
        ("key", {"key": torch.ones(5, 3, device="meta")}, "the query's device cpu, got meta"),
        ("key", {"key": torch.ones(5, 4)}, "the query's width 3"),
        ("value", {"value": torch.ones(6, 2)}, "the key's length 5"),
        ("is_causal", {"is_causal": 1}, "True or False, got 1"),
        ("key", {"is_causal": True}, r"the query's length 4 \(is_causal\)"),
        ("key", {"key": torch.ones(3, 5, 3)}, r"leading dimensions that broadcast with \(2,\)"),
        ("value", {"value": torch.ones(3, 5, 2)}, r"leading dimensions that broadcast with \(2,\)"),
        ("feature_map", {"feature_map": "softmax"}, "one of 'identity', 'elu', 'relu', 'taylor2' or a callable"),
        ("feature_map", {"feature_map": None}, "or a callable, got None"),
        ("feature_map", {"feature_map": "random_positive"}, r"random_positive\(head_dim, num_features, generator\)"),
        ("feature_map", {"feature_map": DRAWN, "query": torch.ones(4, 2), "key": torch.ones(5, 2)}, "head_dim 2"),
        ("feature_map", {"feature_map": lambda x: 1.0}, "from tensors to tensors, got float"),
        ("feature_map", {"feature_map": lambda x: x.mT}, r"features of query of shape \(2, 4, r\)"),
        ("feature_map", {"feature_map": lambda x: x.double()}, "torch.float32, on cpu"),
        (
            "feature_map",
            {"feature_map": lambda x: x[..., : x.shape[-2] - 2]},
            "the same number of features .* got 2 and 3",
        ),
    ],
)
def test_bad_arguments(argument, changed, said):
    with pytest.raises(ArgumentError, match=said) as caught:
        linear_attention(**_arguments(**changed))
    assert caught.value.argument == argument
