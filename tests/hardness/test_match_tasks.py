"""Matching: the labels against the definition, and the distributions of the instances."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from separatrix.errors import ArgumentError
from separatrix.hardness.match_instances import adversarial_instances, planted_instances, uniform_instances
from separatrix.hardness.matching import match_by_definition, match_labels

LIST = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6)


@settings(deadline=None, max_examples=200)
@given(LIST, st.integers(2, 40), st.integers(2, 5))
def test_the_labels_are_those_of_the_definition(tokens: list[int], modulus: int, order: int) -> None:
    x = torch.tensor(tokens)
    assert torch.equal(match_labels(x, modulus, order), match_by_definition(x, modulus, order))


def test_the_labels_at_the_largest_modulus() -> None:
    M = 2**31
    x = torch.tensor([M - 1, 1, 5, 2 * M + 7, -12])
    assert match_labels(x, M, 2).tolist() == [True, True, False, False, False]
    assert match_labels(x, M, 3).tolist() == [False, False, True, True, True]


def test_rows_are_labelled_one_by_one() -> None:
    x = uniform_instances(12, 5, 9, generator=torch.Generator().manual_seed(0))
    rows = torch.stack([match_by_definition(row, 9, 3) for row in x])
    assert rows.any()
    assert not rows.all()
    assert torch.equal(match_labels(x.reshape(3, 4, 5), 9, 3), rows.reshape(3, 4, 5))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_nothing_to_label(shape: tuple[int, ...]) -> None:
    labels = match_labels(torch.zeros(shape, dtype=torch.int64), 5, 3)
    assert labels.shape == shape
    assert labels.dtype == torch.bool


@pytest.mark.parametrize(
    ("order", "modulus", "n"), [(2, 3, 2), (2, 50, 9), (3, 5, 3), (3, 6, 4), (3, 101, 12), (3, 2**31, 7)]
)
def test_a_planted_label_is_the_label(order: int, modulus: int, n: int) -> None:
    x, label = planted_instances(200, n, modulus, order, generator=torch.Generator().manual_seed(1))
    assert x.shape == (200, n)
    assert int(label.sum()) == 100
    assert torch.equal(match_labels(x, modulus, order)[:, 0], label)


def test_the_seed_decides_the_instances() -> None:
    x, again, other = (
        planted_instances(20, 5, 11, 3, generator=torch.Generator().manual_seed(seed))[0] for seed in (3, 3, 4)
    )
    assert torch.equal(x, again)
    assert not torch.equal(x, other)


@pytest.mark.parametrize(("order", "modulus"), [(3, 7), (3, 10), (2, 5)])
def test_the_law_of_a_planted_pair(order: int, modulus: int) -> None:
    """At order 3 no pair, and at order 2 no token, determines the label: their distribution is the same.

    Order 3: (x_0, x_j) is uniform over the admitted pairs under both labels. Each cell is compared with its binomial
    distribution, two-sided; all tests together fail with probability below 1e-7.
    """
    x, label = planted_instances(60_000, 4, modulus, order, generator=torch.Generator().manual_seed(5))
    starts = [v for v in range(modulus) if order * v % modulus]
    if order == 3:
        admitted = {
            (a, v) for a in starts for v in range(modulus) if (2 * v + a) % modulus and v != a and (2 * a + v) % modulus
        }
        law = {(a, v): 1 / len(starts) / sum(b == a for b, _ in admitted) for a, v in admitted}
        seen = [(row[0], row[2]) for row in x.tolist()]
    else:
        law = {(a,): 1 / len(starts) for a in starts}
        seen = [(row[0],) for row in x.tolist()]
    level = 1e-7 / (4 * len(law))
    for wanted in (False, True):
        counts = Counter(pair for pair, is_match in zip(seen, label.tolist(), strict=True) if is_match == wanted)
        assert counts.keys() == law.keys()
        for pair, probability in law.items():
            low, high = binom.ppf(level, 30_000, probability), binom.isf(level, 30_000, probability)
            assert low <= counts[pair] <= high


@pytest.mark.parametrize(("n", "modulus", "order"), [(6, 100, 3), (5, 77, 2), (4, 30, 3), (4, 50, 4)])
def test_adversarial_instances_are_near_misses(n: int, modulus: int, order: int) -> None:
    x = adversarial_instances(n, modulus, order)
    labels = match_labels(x, modulus, order)
    assert labels[0].all()
    assert labels[1, 0]
    assert not labels[2].any()
    assert labels[3].all()
    sums = [sum(tokens) % modulus for tokens in itertools.product(x[2].tolist(), repeat=order)]
    assert set(sums) == {math.gcd(order, modulus)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: match_labels(torch.tensor([1.0]), 5, 2), r"x: expected a tensor of integers, got torch.float32"),
        (lambda: match_labels([1, 2], 5, 2), r"x: expected a tensor of integers, got list"),
        (lambda: match_labels(torch.tensor(3), 5, 2), r"x: expected tokens in the last dimension"),
        (lambda: match_labels(torch.tensor([1]), 1, 2), r"modulus: expected an integer from 2 to 2147483648, got 1"),
        (lambda: match_labels(torch.tensor([1]), 2.0, 2), r"modulus: expected an integer from 2"),
        (lambda: match_labels(torch.tensor([1]), 5, 1), r"order: expected an integer >= 2, got 1"),
        (lambda: match_by_definition(torch.tensor([[1]]), 5, 2), r"x: expected one row of tokens"),
        (lambda: planted_instances(1, 2, 7, 3, generator=torch.Generator()), r"n: expected at least 3 tokens"),
        (lambda: planted_instances(1, 4, 4, 3, generator=torch.Generator()), r"modulus: expected an integer from 5"),
        (lambda: planted_instances(1, 4, 9, 4, generator=torch.Generator()), r"order: expected an integer from 2 to 3"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
