"""Phase diagrams: every cell is the exact probability, and the edge is where it first reaches the level."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from separatrix.errors import ArgumentError
from separatrix.separation import CrossAttention, SelfAttention, SoftmaxRegression, phase


def test_the_grid_is_exact_success_and_the_edge_its_first_crossing() -> None:
    settings = [SelfAttention(64, 10, 15, a0=a0, a1=1, b="0.2", c="0.8", strict=False) for a0 in ("0.05", "0.4", 1)]
    values, level = ["0.1", "0.4", "0.7", "1", "1.5", "2.5"], 0.3
    diagram = phase(settings, "a1", values, level)
    assert diagram.values == tuple(values)
    for setting, column, edge in zip(settings, diagram.success, diagram.edges, strict=True):
        exact = [dataclasses.replace(setting, a1=a1).success_probability().success for a1 in values]
        assert list(column) == exact
        reached = [a1 for a1, success in zip(values, exact, strict=True) if success >= level]
        assert edge.value == (reached[0] if reached else None)
    assert {edge.value for edge in diagram.edges} == {"0.7", "1", None}, "the grid shows all kinds of column"


def test_columns_may_differ_in_anything_and_candidates_be_finer() -> None:
    settings = [CrossAttention(n, 2, m, a0="0.01", a1=3) for n, m in ((16, 7), (10**20, 50))]
    level = 0.6
    diagram = phase(settings, "d", [2, 5, 9, 17], level, candidates=[2, 3, 4, 5, 6, 7, 8, 9, 17])
    for setting, edge in zip(settings, diagram.edges, strict=True):
        success = {
            d: dataclasses.replace(setting, d=d, strict=False).success_probability().success for d in range(2, 18)
        }
        assert edge.value in (6, 8), "and not one of the values"
        assert success[edge.value] >= level > max(success[d] for d in (2, 3, 4, 5, 6, 7, 8) if d < edge.value)


def test_certified_bounds_count_from_below() -> None:
    diagram = phase([SoftmaxRegression(200, 1)], "m", [1, 4], 0.9)
    assert diagram.success[0] == tuple(bracket.low.success for bracket in diagram.columns[0])
    assert diagram.edges[0].value == 4


@pytest.mark.parametrize(
    ("settings", "parameter", "values", "names"),
    [
        ([], "a1", [1], "settings"),
        ([CrossAttention(8, 3, 1, a0=0.05, a1=2)], "a1", [], "values"),
        ([CrossAttention(8, 3, 1, a0=0.05, a1=2)], "a0", [1], "parameter"),
        ([CrossAttention(8, 3, 1, a0=0.05, a1=2)], "a1", [2, 1], "candidates"),
    ],
)
def test_errors_name_the_argument(settings: Any, parameter: Any, values: Any, names: str) -> None:
    with pytest.raises(ArgumentError) as error:
        phase(settings, parameter, values, 0.5)
    assert error.value.argument == names
