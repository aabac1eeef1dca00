"""Every pair of values occurs in a covering, which is far smaller than the product of all parameters."""

from __future__ import annotations

import doctest
from itertools import combinations, product
from math import prod

import pytest

from tests import pairwise as module
from tests.pairwise import pairwise


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (2, 2, 2), (3, 7, 6, 2, 2), (5, 1, 4), (4, 3, 3, 4), (2,) * 5])
def test_every_pair_occurs(sizes: tuple[int, ...]) -> None:
    values = [[f"{column}:{index}" for index in range(size)] for column, size in enumerate(sizes)]
    cases = pairwise(*values)
    assert len(set(cases)) == len(cases)
    for i, j in combinations(range(len(sizes)), 2):
        assert {(case[i], case[j]) for case in cases} == set(product(values[i], values[j])), (i, j)
    longest = sorted(sizes)[-2:]
    assert prod(longest) <= len(cases) <= 2 * prod(longest)


def test_unhashable_values_and_values_that_are_equal() -> None:
    assert sorted(map(str, pairwise([{}, {}], [[1], None]))) == ["({}, None)", "({}, None)", "({}, [1])", "({}, [1])"]


def test_a_parameter_without_values_leaves_no_case() -> None:
    assert pairwise([], "ab", "xyz") == pairwise("ab", []) == []


def test_two_parameters_have_their_product() -> None:
    assert pairwise("ab", "xyz") == list(product("ab", "xyz"))


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(module).failed == 0
