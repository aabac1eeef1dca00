"""A row of the attention matrix, against the definition on all tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from separatrix.separation import CrossAttention, SelfAttention
from separatrix.separation.mechanisms import linear
from separatrix.separation.mechanisms import softmax as softmax_attention
from separatrix.separation.row_shares import any_row, paper_row
from separatrix.separation.tokens import class_sizes


def made(weights: str, n: int, d: int) -> CrossAttention | SelfAttention:
    """A setting of the paper, strict or not."""
    if weights == "cross":
        return CrossAttention(n=n, d=d, m=15, a0="0.05", a1="1.2", strict=False)
    return SelfAttention(n=n, d=d, m=15, a0="0.05", a1="1.2", b="0.3", c="0.7", weights=weights, strict=False)


def literal_row(setting: Any, which: int, query: str, softmax: bool) -> list[float]:
    """The definition, on all n tokens: scores, weights, and the sum of a row over each kind of key."""
    cross = isinstance(setting, CrossAttention)
    data = setting.element(which, 0, 0) if cross else setting.element(which, 0)
    scores = data.A1 @ setting.weight_matrix() @ data.A2.T
    attention = torch.softmax(scores, -1) if softmax else scores / scores.sum(-1, keepdim=True)
    classes = len(class_sizes(setting))
    row = attention[0 if query == "special" else classes - 1].numpy()
    of = np.arange(setting.n) % classes
    sees_classes = not cross and setting.weights == "identity" and query == "other"
    masks = [np.arange(setting.n) == 0, (of == 0) & (np.arange(setting.n) > 0)]
    masks.append((of == classes - 1) & sees_classes)
    masks.append(~np.logical_or.reduce(masks))
    return [float(row[mask].sum()) for mask in masks]


@pytest.mark.parametrize("weights", ["identity", "ones", "cross"])
@pytest.mark.parametrize(("n", "d"), [(20, 7), (23, 6), (4, 5), (12, 4)])
def test_rows_are_those_of_the_definition(weights: str, n: int, d: int) -> None:
    setting = made(weights, n, d)
    for which in (0, 1):
        for query in ("special", "other"):
            for softmax in (True, False):
                wanted = literal_row(setting, which, query, softmax)
                np.testing.assert_allclose(paper_row(setting, which, query, softmax=softmax), wanted, atol=1e-13)
                mechanism = softmax_attention() if softmax else linear("identity")
                np.testing.assert_allclose(any_row(setting, which, query, mechanism), wanted, atol=1e-13)


def test_a_row_at_ten_to_the_hundred() -> None:
    setting = SelfAttention(n=10**100, d=12, m=15, a0="0.01", a1="1.2", b="0.2", c="0.8", weights="ones", strict=False)
    row = paper_row(setting, 1, "special", softmax=True)
    assert row[0] > 1 - 1e-12
    assert sum(row) == pytest.approx(1, abs=1e-12)
    assert 0 < paper_row(setting, 1, "special", softmax=False)[0] < 1e-98
