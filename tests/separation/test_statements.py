"""Exact entries of attention, against the literal definitions in float64."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from separatrix.separation.datasets import cross_attention_input, self_attention_input
from separatrix.separation.statements import Line, Reading, Values, _data, _row, at, evaluate
from tests.separation.definition import attention_by_definition

SHAPES = [(12, 6), (6, 8), (8, 4), (7, 3), (10, 12)]
CROSS = [(12, 5), (6, 7), (8, 3), (5, 2), (10, 11)]


def number(terms: tuple[tuple[Fraction, Fraction], ...], n: int) -> float:
    return math.fsum(float(q) * float(n) ** float(e) for e, q in terms)


def exact(reading: Reading, values: Values) -> dict[str, Tensor]:
    queries, keys, _ = _data(reading, values)
    rows = [_row(tuple(sorted(q.items())), keys, values.d, reading.weights, reading.network) for q in queries]

    def matrix(name: str) -> Tensor:
        quotients = [[row[name].different[k] for k in row[name].which] for row in rows]
        values_of = [[number(x, values.n) / number(y, values.n) for x, y in row] for row in quotients]
        return torch.tensor(values_of, dtype=torch.float64)

    return {name: matrix(name) for name in "ufc"}


@pytest.mark.parametrize("data", [0, 1])
@pytest.mark.parametrize("network", ["exp", "lin"])
@pytest.mark.parametrize("weights", ["ones", "identity"])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_entries_of_self_attention_are_those_of_the_definition(n, d, weights, network, data) -> None:
    a = (0.05, 1.2)[data]
    values = Values(n, d, Fraction("0.05"), Fraction("1.2"), Fraction("0.3"), Fraction("0.7"), n // 2, n // 2)
    entries = exact(Reading(data, weights, network, ()), values)
    W = torch.ones(d, d).double() if weights == "ones" else torch.eye(d).double()
    u, f, c = attention_by_definition(self_attention_input(n, d, a, 0.3, 0.7, n // 2), W, network)
    unit = math.log(n)
    torch.testing.assert_close(entries["u"] * (1 if network == "exp" else unit), u, rtol=1e-11, atol=0)
    torch.testing.assert_close(entries["f"], f, rtol=1e-11, atol=0)
    torch.testing.assert_close(entries["c"] * math.sqrt(unit), c, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("network", ["exp", "lin"])
@pytest.mark.parametrize(("n", "d"), CROSS)
@pytest.mark.parametrize("j2", [0, 3])
def test_the_entries_of_cross_attention_are_those_of_the_definition(n, d, network, j2) -> None:
    values = Values(n, d, Fraction("0.05"), Fraction(3), Fraction(0), Fraction(0), j2, n - 2)
    entries = exact(Reading(1, "cross", network, ()), values)
    u, f, c = attention_by_definition(cross_attention_input(n, d, 3.0, j2, n - 2), torch.eye(d).double(), network)
    torch.testing.assert_close(entries["u"] * (1 if network == "exp" else math.log(n)), u, rtol=1e-11, atol=0)
    torch.testing.assert_close(entries["f"], f, rtol=1e-11, atol=0)
    torch.testing.assert_close(entries["c"], c, rtol=1e-11, atol=1e-15)


def one_line(line: Line, n: int = 12, d: int = 6) -> tuple[int, int, float | None]:
    values = Values(n, d, Fraction("0.05"), Fraction("1.2"), Fraction("0.3"), Fraction("0.7"), 4, 4)
    comparison = evaluate(Reading(1, "ones", "exp", (line,)), values)["x"]
    return comparison.compared, comparison.violations, comparison.ratio


def test_at_most_means_at_most() -> None:
    """Compare the largest entry with itself, and with itself minus one part in 10^40."""
    special = at(row=True, key=True)
    assert one_line(Line("x", "u", special, "<=", lambda v: {(1 + v.a1) ** 2: 1}))[:2] == (1, 0)
    less = 1 - Fraction(1, 10**40)
    assert one_line(Line("x", "u", special, "<=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 1)
    assert one_line(Line("x", "u", special, "=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 1)
    assert one_line(Line("x", "u", special, ">=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 0)


def test_places_are_counted() -> None:
    billion = {0: Fraction(10**9)}
    assert one_line(Line("x", "u", at(), "<=", lambda v: billion))[0] == 144
    assert one_line(Line("x", "u", at(row=False), "<=", lambda v: billion))[0] == 132
    assert one_line(Line("x", "u", at(row=True, key=False), "<=", lambda v: billion))[0] == 11
    assert one_line(Line("x", "u", at(row=False, same_class=True), "<=", lambda v: billion))[0] == 11 * 3
    assert one_line(Line("x", "c", at(column="own"), "<=", lambda v: billion))[0] == 12
    assert one_line(Line("x", "c", at(row=True, column="own other"), "<=", lambda v: billion))[0] == 4
    assert one_line(Line("x", "c", at(column="last"), "<=", lambda v: billion))[0] == 12
    assert one_line(Line("x", "c", at(column="other"), "<=", lambda v: billion), n=7, d=3) == (0, 0, None)


def test_a_number_of_places_is_compared_row_by_row() -> None:
    def line(number: int) -> Line:
        return Line("x", "u", at(row=False), "=", lambda v: {1: 1}, count=lambda v: number)

    assert one_line(line(11)) == (11, 0, None)
    assert one_line(line(12)) == (11, 11, None)
