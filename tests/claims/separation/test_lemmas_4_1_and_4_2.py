"""Lemma 4.1 and Lemma 4.2: the recorded verdict, and what would change it."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from separatrix.claims.separation import lemmas_4_1_and_4_2
from tests.contracts.claim_contract import FAILS, ClaimContract


class TestLemmas41And42(ClaimContract):
    module = lemmas_4_1_and_4_2
    worlds = (
        ("lemma-4.1", {"lin_d0_within": False}, FAILS),
        ("lemma-4.1", {"exp_d0_within": False}, FAILS),
        ("lemma-4.1", {"enough": -1.0}, FAILS),
        ("lemma-4.1", {"lin_d0": 0.5}, FAILS),
        ("lemma-4.2", {"at_least_quarter": False}, FAILS),
        ("lemma-4.2", {"others": [0.0, 0.0]}, FAILS),
        ("lemma-4.2", {"below_quarter": 1}, FAILS),
        ("lemma-4.2", {"positive": 0.4375}, FAILS),
    )


def all_signs(n: int) -> Tensor:
    return torch.tensor(list(product((1.0, -1.0), repeat=n)), dtype=torch.float64)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 16])
def test_the_bounds_over_all_data_are_above_the_shares_of_data_at_the_corners(n: int) -> None:
    found = lemmas_4_1_and_4_2.entries(n=n, seed=0)
    s = math.sqrt(math.log(n / 0.01) / n)
    signs = all_signs(n)
    equal = signs.sum(1).abs() / n
    share = float((equal > 1.2 * s).double().mean())
    assert found["few"] == (pytest.approx(math.log10(share), rel=1e-12) if share else -math.inf)
    for high in range(1, n):
        w = torch.ones(n, dtype=torch.float64)
        w[:high] = 1.4
        beyond = (signs @ (w / w.sum())).abs() > 2 * s
        assert float(beyond.double().mean()) <= 10 ** found["enough"]
        assert float((w / w.sum()).max()) <= 2 / n
        v = w.clone()
        v[:high] = n**0.4
        assert float((v / v.sum()).max()) <= n**-0.6
        beyond = (signs @ (v / v.sum())).abs() > 2 * s * n**0.4
        assert float(beyond.double().mean()) <= 10 ** found["others"][0]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100, 2000])
def test_the_special_weight_of_softmax_regression_against_all_others(n: int) -> None:
    found = lemmas_4_1_and_4_2.entries(n=n, seed=0)
    others = (n - 1) * n**1.4
    least = (n**4 - others) / (n**4 + others)
    assert found["at_least_quarter"] == (least >= 0.25)
    assert found["above_half"] == (least > 0.5)
    assert found["sign_decided"] == (least > 0)
    assert found["above_half"]
