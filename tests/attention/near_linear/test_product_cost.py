"""The count of a product with monomials: by formula for sets of total degree, and by counting for any set."""

from __future__ import annotations

import pytest

from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.product_cost import Expanded, direct, expanded, expanded_total_degree


@pytest.mark.parametrize("d", [1, 3, 4, 6, 9])
@pytest.mark.parametrize("degree", [0, 1, 2, 4])
def test_the_formula_of_total_degree_is_the_count(d, degree):
    assert expanded_total_degree(d, degree) == expanded(total_degree(d, degree))


def test_a_count_by_hand():
    assert expanded(total_degree(8, 4)) == Expanded(rank=495, rows=165, pairs=4 * 165 + 4 * 35)


def test_no_coordinates_are_one_monomial_whatever_the_degree():
    """As where the query is zero throughout: all its coordinates are dropped."""
    assert [expanded(total_degree(0, degree)) for degree in (0, 1, 2, 5)] == [direct(1)] * 4
