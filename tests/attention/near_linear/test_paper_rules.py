"""The ranks, orders and thresholds in the theorems of Alman and Song."""

from __future__ import annotations

import math

import pytest

import separatrix as sx
from separatrix.attention.near_linear.paper_rules import paper_rank, threshold


@pytest.mark.parametrize("bound", [1.01, 1.5, 2.0, 3.6])
@pytest.mark.parametrize("n", [3, 100, 10**6, 10**50])
def test_max_order_is_the_papers_rule(n, bound):
    k = sx.max_order(n, bound)
    assert k == 0 or bound < math.log(n) ** (1 / k)
    assert bound >= math.log(n) ** (1 / (k + 1)) * (1 - 1e-12)


def test_max_order_at_most_one():
    assert sx.max_order(100, 1.0) == math.inf
    assert sx.max_order(2, 0.9) == math.inf
    with pytest.raises(sx.ArgumentError, match="n: expected"):
        sx.max_order(1, 0.5)
    with pytest.raises(sx.ArgumentError, match="bound: expected"):
        sx.max_order(10, math.inf)


def test_ranks_of_the_paper_and_ours():
    assert paper_rank(8, 4, 3) == 1251677700
    assert threshold(10**6, 3) == pytest.approx(2.3997, abs=1e-3)
