"""Index sets and monomials against their definitions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import (
    downward_closed,
    monomials,
    monomials_backward,
    total_degree,
)
from tests.contracts.attention_contract import draw


def literal(x, index_set):
    return torch.stack([(x ** torch.tensor(alpha).unsqueeze(-1)).prod(-2) for alpha in index_set.alphas], -2)


@pytest.mark.parametrize(("d", "degree"), [(1, 0), (1, 5), (3, 0), (3, 4), (5, 3), (0, 0)])
def test_total_degree_has_all_multi_indices(d, degree):
    index_set = total_degree(d, degree)
    expected = {alpha for alpha in product(range(degree + 1), repeat=d) if sum(alpha) <= degree}
    assert {tuple(alpha) for alpha in index_set.alphas.tolist()} == expected
    assert index_set.rank == len(expected) == math.comb(d + degree, degree)


# Integers are included: where an amplitude is a power, weights are equal.
amplitudes = st.lists(st.floats(1e-4, 12.0) | st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=1, max_size=4).filter(any)


@given(b=amplitudes, rank=st.integers(1, 80))
def test_greedy_sets_are_closed_downward(b, rank):
    alphas = list(map(tuple, greedy_alphas(b, rank).tolist()))
    assert len(set(alphas)) == len(alphas) == rank
    for alpha in alphas:
        for coordinate, power in enumerate(alpha):
            if power:
                assert (*alpha[:coordinate], power - 1, *alpha[coordinate + 1 :]) in alphas


@given(b=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=3), rank=st.integers(1, 40))
def test_greedy_sets_take_the_largest(b, rank):
    """For amplitudes up to 1 no excluded alpha has a larger weight than the smallest included one."""

    def weight(alpha):
        return math.prod(x**power / math.factorial(power) for x, power in zip(b, alpha, strict=True))

    taken = set(map(tuple, greedy_alphas(b, rank).tolist()))
    least = min(map(weight, taken))
    for alpha in product(range(6), repeat=len(b)):
        if alpha not in taken:
            assert weight(alpha) <= least * (1 + 1e-12)


@given(b=amplitudes, rank=st.integers(1, 60), seed=st.integers(0, 99))
def test_monomials_and_their_gradient(b, rank, seed):
    index_set = downward_closed(greedy_alphas(b, rank))
    x = draw(seed, 2, len(b), 3).requires_grad_()
    features = monomials(x.detach(), index_set)
    expected = literal(x, index_set)
    assert torch.allclose(features, expected, atol=1e-14)
    grad = draw(seed + 1, *features.shape)
    ours = monomials_backward(x.detach(), index_set, features, grad.clone())
    assert torch.allclose(ours, torch.autograd.grad(expected, x, grad)[0], atol=1e-11)


def test_multinomials_add_up():
    """sum over |alpha| = p of p! / alpha! x^alpha is (x_1 + ... + x_d)^p."""
    index_set = total_degree(4, 5)
    x = draw(0, 4, 6)
    terms = monomials(x, index_set) * torch.from_numpy(index_set.multinomials).unsqueeze(-1)
    for p, level in enumerate(index_set.levels):
        assert torch.allclose(terms[slice(*level)].sum(0), x.sum(0) ** p, atol=1e-13)
    assert np.array_equal(
        index_set.alphas.sum(1), np.repeat(range(6), [stop - start for start, stop in index_set.levels])
    )
