"""The expansion and its remainder, against the sum over all tuples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from flint import arb

from separatrix.attention.checker import moments
from separatrix.attention.checker.expansion import QueryRanges, attend_expansion, forecast_errors
from separatrix.attention.checker.moments import MonomialTable, Split, sums_at
from separatrix.attention.checker.problem import Head
from separatrix.attention.checker.tuples import attend_tuples
from separatrix.errors import ArgumentError

LENGTHS = {2: (40,), 3: (30, 23), 4: (9, 8, 7)}


def make_head(order, d=4, d_v=2, scale=0.25, seed=0, heavy=False):
    rng = np.random.default_rng(seed)
    draw = (lambda *shape: rng.standard_t(2, shape)) if heavy else (lambda *shape: rng.uniform(-1, 1, shape))
    keys = [draw(n, d) * 10.0 ** rng.uniform(-3, 0, d) for n in LENGTHS[order]]
    values = [draw(n, d_v) for n in LENGTHS[order]]
    seen = [rng.random(n) < 0.9 for n in LENGTHS[order]]
    hidden = [[np.where(s[:, None], x, 0.0) for x, s in zip(part, seen, strict=True)] for part in (keys, values)]
    return Head(tuple(hidden[0]), tuple(hidden[1]), tuple(seen), scale)


def asked(head, seed, spans=None):
    rng = np.random.default_rng(seed)
    return QueryRanges(rng.uniform(-1, 1, head.keys[0].shape[1]), spans or tuple((0, len(key)) for key in head.keys))


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("heavy", [False, True])
def test_balls_contain_the_sum_over_all_tuples(order, heavy):
    head = make_head(order, heavy=heavy)
    spans = tuple((m + 1, len(key) - 1) for m, key in enumerate(head.keys))
    queries = [asked(head, 1), asked(head, 2, spans), asked(head, 3)]
    exact = [attend_tuples(q.vector, *head.attended(q.spans), head.scale, 256) for q in queries]
    before = [math.inf] * 3
    for degree in (1, 3, 7, 13):
        output = attend_expansion(head, queries, degree)
        for i, (actual, truth) in enumerate(zip(output, exact, strict=True)):
            assert actual.lse.overlaps(truth.lse)
            assert all(a.overlaps(b) for a, b in zip(actual.output, truth.output, strict=True))
            width = max(float(ball.rad()) for ball in (*actual.output, actual.lse))
            assert width < max(before[i] / 10, 1e-11)
            before[i] = width


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_the_remainder_is_needed_and_close(degree):
    """One tuple with score 1: the polynomial's part is sum 1/p!, and the ball ends just above exp(1)."""
    head = Head((np.ones((1, 1)),), (np.ones((1, 1)),), (np.ones(1, dtype=bool),), 1.0)
    lse = attend_expansion(head, [QueryRanges(np.ones(1), ((0, 1),))], degree)[0].lse
    polynomial = sum(1 / math.factorial(p) for p in range(degree + 1))
    remainder = math.e / math.factorial(degree + 1)
    assert math.isclose(float(lse.upper()), math.log(polynomial + remainder), abs_tol=1e-7)
    assert lse.contains(arb(1))


def test_constant_values_need_no_expansion():
    """For all weights, the average of a constant is the constant: the remainder does not enlarge the ball."""
    head = make_head(3)
    constant = tuple(np.where(s[:, None], 3.0, 0.0) * np.ones(2) for s in head.seen)
    found = attend_expansion(Head(head.keys, constant, head.seen, 4.0), [asked(head, 0)], 3)[0]
    assert all(ball.overlaps(arb(9)) and ball.rad() < 1e-10 for ball in found.output)


@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_all_monomials_once_and_their_coefficients(width):
    degree = 4
    table = MonomialTable(width, degree)
    expected = {a for a in itertools.product(range(degree + 1), repeat=width) if sum(a) <= degree}
    x = np.random.default_rng(0).uniform(0.5, 1, (width, 3))
    values = table.evaluate(torch.from_numpy(x)).numpy()
    coefficients = table.coefficients([arb(2.0)] * width)
    assert len(values) == len(coefficients) == len(expected) == table.count(degree)
    literal = sorted(tuple(np.prod(x.T ** np.array(a), 1)) for a in expected)
    np.testing.assert_allclose(sorted(map(tuple, values)), literal, rtol=1e-14)
    total = sum(float(c) for c in coefficients)
    expected_total = sum(2.0 ** sum(a) / math.prod(map(math.factorial, a)) for a in expected)
    assert math.isclose(total, expected_total, rel_tol=1e-12)


def test_sums_between_boundaries_are_within_their_balls(monkeypatch):
    """Sums are those of exact integer arithmetic: coordinates and weights are multiples of 2^-8."""
    monkeypatch.setattr(moments, "TOKENS", 7)
    rng = np.random.default_rng(0)
    x, w = (torch.from_numpy(rng.integers(-256, 257, (rows, 50)) / 256) for rows in (3, 2))
    w[0] = 1.0
    split = Split(MonomialTable(1, 4), MonomialTable(2, 4), 3)
    kept = sums_at(x, w, split, [5, 20, 50])
    weighed, last = kept[50].balls(kept[20], split, 30)
    left, right = split.left.evaluate(x[:1])[:, 20:], split.right.evaluate(x[1:])[:, 20:]
    for i, balls in enumerate(weighed):
        exact = torch.einsum("bt,gt,ct->bgc", left[split.left.rows(i)], right[: split.right.count(3 - i)], w[:, 20:])
        assert all(ball.contains(arb(float(number))) for ball, number in zip(balls, exact.flatten(), strict=True))
        assert all(ball.rad() < 1e-11 for ball in balls)
    for i, balls in enumerate(last):
        exact = left[split.left.rows(i)] @ right[split.right.rows(4 - i)].mT
        assert all(ball.contains(arb(float(number))) for ball, number in zip(balls, exact.flatten(), strict=True))


def test_attended_entries_must_be_finite():
    head = make_head(2)
    head.keys[0][5] = np.nan
    with pytest.raises(ArgumentError, match=r"keys\[0\]: expected finite entries wherever they are attended"):
        attend_expansion(head, [asked(head, 0)], 3)
    attend_expansion(head, [asked(head, 0, ((6, 40),))], 3)


def test_the_forecast_is_close_to_the_measured_value():
    head = make_head(3)
    query = asked(head, 0)
    forecast = forecast_errors(head, query, [3, 5])
    for degree, (output, lse) in zip([3, 5], forecast, strict=True):
        found = attend_expansion(head, [query], degree)[0]
        assert 0.1 < output / max(float(ball.rad()) for ball in found.output) < 10
        assert 0.1 < lse / float(found.lse.rad()) < 10
