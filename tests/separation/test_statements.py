"""Exact entries and exact chances of single rows, against the literal definitions in float64 and by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from separatrix.claims.separation import regression
from separatrix.separation.row_events import one_row
from separatrix.separation.statements import Line, Reading, Values, _data, _row, at, evaluate
from separatrix.errors import ArgumentError
from separatrix.separation.datasets import AttentionInput, cross_attention_input, self_attention_input

SHAPES = [(12, 6), (6, 8), (8, 4), (7, 3), (10, 12)]
CROSS = [(12, 5), (6, 7), (8, 3), (5, 2), (10, 11)]


def literal(data: AttentionInput, weights: Tensor, network: str) -> tuple[Tensor, Tensor, Tensor]:
    """u, f, c of Definitions C.1 and C.4."""
    scores = data.A1 @ weights @ data.A2.mT
    u = torch.exp(scores) if network == "exp" else scores
    f = u / u.sum(1, keepdim=True)
    return u, f, f @ data.A3


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
    found = exact(Reading(data, weights, network, ()), values)
    W = torch.ones(d, d).double() if weights == "ones" else torch.eye(d).double()
    u, f, c = literal(self_attention_input(n, d, a, 0.3, 0.7, n // 2), W, network)
    unit = math.log(n)
    torch.testing.assert_close(found["u"] * (1 if network == "exp" else unit), u, rtol=1e-11, atol=0)
    torch.testing.assert_close(found["f"], f, rtol=1e-11, atol=0)
    torch.testing.assert_close(found["c"] * math.sqrt(unit), c, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("network", ["exp", "lin"])
@pytest.mark.parametrize(("n", "d"), CROSS)
@pytest.mark.parametrize("j2", [0, 3])
def test_the_entries_of_cross_attention_are_those_of_the_definition(n, d, network, j2) -> None:
    values = Values(n, d, Fraction("0.05"), Fraction(3), Fraction(0), Fraction(0), j2, n - 2)
    found = exact(Reading(1, "cross", network, ()), values)
    u, f, c = literal(cross_attention_input(n, d, 3.0, j2, n - 2), torch.eye(d).double(), network)
    torch.testing.assert_close(found["u"] * (1 if network == "exp" else math.log(n)), u, rtol=1e-11, atol=0)
    torch.testing.assert_close(found["f"], f, rtol=1e-11, atol=0)
    torch.testing.assert_close(found["c"], c, rtol=1e-11, atol=1e-15)


def one_line(line: Line, n: int = 12, d: int = 6) -> tuple[int, int, float | None]:
    values = Values(n, d, Fraction("0.05"), Fraction("1.2"), Fraction("0.3"), Fraction("0.7"), 4, 4)
    found = evaluate(Reading(1, "ones", "exp", (line,)), values)["x"]
    return found.compared, found.violations, found.ratio


def test_at_most_means_at_most() -> None:
    """The largest entry is compared with itself, and with the same less one part in 10^40."""
    special = at(row=True, key=True)
    assert one_line(Line("x", "u", special, "<=", lambda v: {(1 + v.a1) ** 2: 1}))[:2] == (1, 0)
    less = 1 - Fraction(1, 10**40)
    assert one_line(Line("x", "u", special, "<=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 1)
    assert one_line(Line("x", "u", special, "=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 1)
    assert one_line(Line("x", "u", special, ">=", lambda v: {(1 + v.a1) ** 2: less}))[:2] == (1, 0)


def test_places_are_counted() -> None:
    one = {0: Fraction(10**9)}
    assert one_line(Line("x", "u", at(), "<=", lambda v: one))[0] == 144
    assert one_line(Line("x", "u", at(row=False), "<=", lambda v: one))[0] == 132
    assert one_line(Line("x", "u", at(row=True, key=False), "<=", lambda v: one))[0] == 11
    assert one_line(Line("x", "u", at(row=False, same_class=True), "<=", lambda v: one))[0] == 11 * 3
    assert one_line(Line("x", "c", at(column="own"), "<=", lambda v: one))[0] == 12
    assert one_line(Line("x", "c", at(row=True, column="own other"), "<=", lambda v: one))[0] == 4
    assert one_line(Line("x", "c", at(column="last"), "<=", lambda v: one))[0] == 12
    assert one_line(Line("x", "c", at(column="other"), "<=", lambda v: one), n=7, d=3) == (0, 0, None)


def test_a_number_of_places_is_compared_row_by_row() -> None:
    def line(number: int) -> Line:
        return Line("x", "u", at(row=False), "=", lambda v: {1: 1}, count=lambda v: number)

    assert one_line(line(11)) == (11, 0, None)
    assert one_line(line(12)) == (11, 11, None)


def enumerated(row: Tensor, tau: float, last: int | None) -> tuple[float, float]:
    """P[>= tau] and P[> tau] over all sign vectors; no sum may be near tau."""
    signs = torch.tensor(list(product((1.0, -1.0), repeat=len(row))), dtype=torch.float64)
    if last is not None:
        signs = signs[signs[:, -1] == last]
    sums = signs @ row
    assert (sums - tau).abs().min() > 1e-9
    return float((sums >= tau).double().mean()), float((sums > tau).double().mean())


ROWS = [
    ("ones", "exp", "special", 12, 6),
    ("ones", "exp", "other", 12, 6),
    ("ones", "lin", "special", 20, 7),
    ("ones", "lin", "other", 20, 7),
    ("identity", "exp", "special", 12, 6),
    ("identity", "exp", "own class", 12, 6),
    ("identity", "exp", "other class", 21, 9),
    ("identity", "lin", "special", 12, 6),
    ("identity", "lin", "own class", 12, 6),
    ("identity", "lin", "other class", 14, 9),
    ("identity", "exp", "special", 7, 3),
    ("cross", "exp", "special", 12, 5),
    ("cross", "exp", "other", 12, 5),
    ("cross", "lin", "special", 24, 9),
    ("cross", "lin", "other", 6, 7),
]


@pytest.mark.parametrize(("model", "network", "row", "n", "d"), ROWS)
@pytest.mark.parametrize("tau", ["0.897", "0.413", "-0.257", "1.871"])
def test_the_chance_of_a_row_is_that_of_all_sign_vectors(model, network, row, n, d, tau) -> None:
    g = d - 1 if model == "cross" else d - 2
    j = 2
    if model == "cross":
        data, unit, last_signs = cross_attention_input(n, d, 1.7, 0, j), 1.0, (None,)
        W, j0 = torch.eye(d).double(), 0 if row == "special" else 1
    else:
        data, unit, last_signs = self_attention_input(n, d, 1.1, 0.3, 0.7, j), math.sqrt(math.log(n)), (None, 1, -1)
        W = torch.ones(d, d).double() if model == "ones" else torch.eye(d).double()
        j0 = {"special": j, "own class": j + g, "other class": j + 1, "other": j + 1}[row]
    c = literal(data, W, network)[2][j0] / unit
    a = "1.7" if model == "cross" else "1.1"
    found = one_row(model, network, row, n=n, g=g, a=a, tau=tau, b="0.3", c="0.7")
    for last in last_signs:
        reaches, exceeds = enumerated(c, float(tau), last)
        assert float(found.reaches(last)) == pytest.approx(reaches, abs=1e-15)
        assert float(found.exceeds(last)) == pytest.approx(exceeds, abs=1e-15)


def test_a_tie_reaches_and_does_not_exceed() -> None:
    """Linear weights of cross-attention outside row j2 are 1/n: the first coordinate 1/n, each class 1/g."""
    n, g = 12, 4
    row = [Fraction(1, n)] + [Fraction(1, g)] * g
    tau = Fraction(1, n) + Fraction(1, 2)
    sums = [sum(s * x for s, x in zip(signs, row, strict=True)) for signs in product((1, -1), repeat=g + 1)]
    found = one_row("cross", "lin", "other", n=n, g=g, a="0.05", tau=str(tau))
    assert float(found.reaches()) == sum(x >= tau for x in sums) / len(sums)
    assert float(found.exceeds()) == sum(x > tau for x in sums) / len(sums)
    assert sum(x == tau for x in sums) > 0


def test_rows_and_classes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ArgumentError, match="row"):
        one_row("identity", "exp", "other class", n=5, g=1, a="1", tau="0.9")
    with pytest.raises(ArgumentError, match="row"):
        one_row("ones", "exp", "own class", n=10, g=5, a="1", tau="0.9")
    with pytest.raises(ArgumentError, match="divisor"):
        one_row("ones", "exp", "special", n=11, g=5, a="1", tau="0.9")


def all_signs(n: int) -> Tensor:
    return torch.tensor(list(product((1.0, -1.0), repeat=n)), dtype=torch.float64)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 16])
def test_the_bounds_over_all_data_are_above_the_shares_of_data_at_the_corners(n: int) -> None:
    found = regression.entries(n=n, seed=0)
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
    found = regression.entries(n=n, seed=0)
    others = (n - 1) * n**1.4
    least = (n**4 - others) / (n**4 + others)
    assert found["at_least_quarter"] == (least >= 0.25)
    assert found["above_half"] == (least > 0.5)
    assert found["sign_decided"] == (least > 0)
    assert found["above_half"]
