"""Pairwise coverings: few cases in which every two values of two different parameters occur together.

A mistake that tests of several parameters find usually depends on the values of one or two of them. A covering of all
pairs has about as many cases as the product of the two longest parameters, while the product of all parameters has
hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def pairwise(*parameters: Iterable[Any]) -> list[tuple[Any, ...]]:
    """A covering of all pairs of values of at least two parameters, for `pytest.mark.parametrize`.

    A parameter without values leaves no case. The same arguments give the same cases in every process, as pytest-xdist
    requires.

    Example:
        >>> pairwise("ab", [1, 2], [True, False])
        [('a', 1, True), ('a', 2, False), ('b', 1, False), ('b', 2, True)]
    """
    values = [list(parameter) for parameter in parameters]
    if not all(values):
        return []
    columns = range(len(values))
    # A pair is (first column, index of its value, second column, index of its value), the columns ascending.
    uncovered = {
        (i, a, j, b): None
        for i, j in combinations(columns, 2)
        for a, b in product(range(len(values[i])), range(len(values[j])))
    }
    cases = []
    while uncovered:
        i, a, j, b = next(iter(uncovered))
        case = {i: a, j: b}
        for column in columns:
            if column not in case:
                case[column] = max(
                    range(len(values[column])),
                    key=lambda index: sum(pair in uncovered for pair in _pairs_with(case, column, index)),
                )
        for left, right in combinations(columns, 2):
            uncovered.pop((left, case[left], right, case[right]), None)
        cases.append(tuple(values[column][case[column]] for column in columns))
    return cases


def _pairs_with(case: dict[int, int], column: int, index: int) -> list[tuple[int, int, int, int]]:
    """The pairs of a value of `column` with the values that are already chosen."""
    return [
        (other, chosen, column, index) if other < column else (column, index, other, chosen)
        for other, chosen in case.items()
    ]
