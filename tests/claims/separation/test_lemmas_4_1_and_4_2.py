"""Tests of Lemma 4.1 and Lemma 4.2 in addition to the tests of all claims."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from separatrix.claims.separation import lemmas_4_1_and_4_2
from separatrix.separation.binomial import tails
from tests.claims.cells import ran
from tests.claims.changes import UNDECIDED, every


def test_a_constant_that_is_neither_refuted_nor_shown_is_undecided() -> None:
    cells = every(ran("separation/lemma-4.1"), too_small=[1.3, 1.3])
    assert lemmas_4_1_and_4_2.lemma_4_1.check(cells, C=1.4).verdict is UNDECIDED


@cache
def all_signs(n: int) -> Tensor:
    return torch.tensor(list(product((1.0, -1.0), repeat=n)), dtype=torch.float64)


def share_beyond(u: Tensor, C: float) -> float:
    """The fraction of all sign vectors with |sum f_lin sigma| > C sqrt(log(n / delta) / n), for one data set."""
    n = len(u)
    return float(((all_signs(n) @ (u / u.sum())).abs() > C * math.sqrt(math.log(n / 0.01) / n)).double().mean())


@pytest.mark.parametrize("n", [2, 3, 5, 10, 16])
def test_the_constants_against_all_sign_vectors(n: int) -> None:
    result = lemmas_4_1_and_4_2.entries(n=n, seed=0)
    for special in (0, 1):
        equal = torch.ones(n, dtype=torch.float64)
        if special:
            equal[-1] = 4
        C = result["too_small"][special]
        assert share_beyond(equal, C) > 0.01 / n >= share_beyond(equal, C + 2e-4)
        for high in range(n - special + 1):
            u = equal.clone()
            u[:high] = 1.4
            assert share_beyond(u, result["enough"][special]) <= 0.01 / n
            assert n * float((u / u.sum()).square().sum()) <= result["squares"][special] + 1e-12


@pytest.mark.parametrize("n", [2, 5, 6, 30, 57, 150])
@pytest.mark.parametrize("special", [0, 1])
def test_the_largest_sum_of_squares_is_nearly_reached(n: int, special: int) -> None:
    """The maximum exceeds the maximum over data at the ends of their ranges by a factor of at most 1 + 1 / n^2."""
    most = lemmas_4_1_and_4_2.most_squares(n, special)
    fixed = [Fraction(4)] * special
    data = [
        [*fixed, *[Fraction(7, 5)] * high, *[Fraction(1)] * (n - special - high)] for high in range(n - special + 1)
    ]
    reached = max(n * sum(x * x for x in u) / sum(u) ** 2 for u in data)
    assert reached <= most <= reached * (1 + Fraction(1, n**2))


@pytest.mark.parametrize(("N", "k"), [(10**6 + 2, 503_000), (10**7, 5_010_000)])
def test_the_lower_bound_on_a_tail(N: int, k: int) -> None:
    exact = tails(N)[k]
    low = lemmas_4_1_and_4_2._tail_at_least(N, k)
    assert 0.85 * exact <= low <= exact


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100, 2000])
def test_the_special_weight_of_softmax_regression_against_all_others(n: int) -> None:
    result = lemmas_4_1_and_4_2.entries(n=n, seed=0)
    other_entries = (n - 1) * n**1.4
    least = (n**4 - other_entries) / (n**4 + other_entries)
    assert result["above_half"] == (least > 0.5)
    assert result["least"] == pytest.approx(least, rel=1e-12)
    for statement in ("0.2", "0.86"):
        leads = lemmas_4_1_and_4_2._special_leads(n, Fraction(statement), Fraction(4))
        assert leads == (least >= float(statement))
