"""The definition in balls, against mpmath and against numbers worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from separatrix.attention.checker import tuples
from separatrix.attention.checker.tuples import attend_tuples
from tests.attention.checker.oracle import draw_sets, holds, literal


@pytest.mark.parametrize("lengths", [(5,), (3, 4), (1, 6), (2, 3, 2), (2, 1, 2, 2), (1, 2, 1, 2, 1, 2)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_balls_contain_the_results_of_mpmath(lengths, size):
    query, keys, values = draw_sets(len(lengths), lengths, size=size)
    exact, lse = literal(query.tolist(), [k.tolist() for k in keys], [v.tolist() for v in values], 0.3)
    output = attend_tuples(query, keys, values, 0.3, 160)
    assert holds(output.lse, lse)
    assert output.lse.rad() < 1e-40
    for ball, number in zip(output.output, exact, strict=True):
        assert holds(ball, number)
        assert ball.rad() < 1e-40
        assert not holds(ball, number, off=1e-38)


def test_equal_scores_give_a_mean():
    """A query of zeros: the output is (1 + 2 + 4) / 3 times (10 + 1) / 2, exactly, and lse is the logarithm of 6."""
    values = [np.array([[1.0], [2.0], [4.0]]), np.array([[10.0], [1.0]])]
    output = attend_tuples(np.zeros(2), [np.ones((3, 2)), np.ones((2, 2))], values, 1.0, 128)
    mean = Fraction(7, 3) * Fraction(11, 2)
    with ctx.workprec(128):
        assert output.output[0].contains(arb(mean.numerator) / mean.denominator)
        assert output.lse.overlaps(arb(6).log())
        assert output.lse.rad() < 1e-35


@pytest.mark.parametrize("exponent", [60, 300, 2000])
def test_scores_of_any_size(exponent):
    """Two scores near 2^exponent that differ by 1: the ratio of the weights is e at every magnitude."""
    power = exponent // 4
    query = np.array([2.0**power, 1.0])
    keys = [
        np.array([[2.0**power, 1.0], [2.0**power, 0.0]]),
        np.array([[2.0 ** (exponent - 2 * power) if exponent < 1000 else 2.0**1000, 1.0]]),
    ]
    values = [np.array([[1.0], [0.0]]), np.array([[1.0]])]
    output = attend_tuples(query, keys, values, 1.0, 4096)
    with ctx.workprec(256):
        assert output.output[0].overlaps(1 / (1 + arb(-1).exp()))
    assert output.output[0].rad() < 1e-60


def test_subnormal_numbers_count():
    query, key = np.array([2.0**1000]), np.array([[2.0**-1074], [0.0]])
    output = attend_tuples(query, [key], [np.array([[1.0], [0.0]])], 2.0**74, 128)
    with ctx.workprec(128):
        assert output.output[0].overlaps(1 / (1 + arb(-1).exp()))


def test_blocks_change_nothing(monkeypatch):
    query, keys, values = draw_sets(0, (7, 5, 3), size=3.0)
    whole = attend_tuples(query, keys, values, 1.0, 128)
    monkeypatch.setattr(tuples, "_BLOCK", 10)
    parts = attend_tuples(query, keys, values, 1.0, 128)
    assert parts.lse.overlaps(whole.lse)
    assert all(a.overlaps(b) and a.rad() < 1e-30 for a, b in zip(parts.output, whole.output, strict=True))


def test_nothing_to_attend():
    output = attend_tuples(np.ones(2), [np.ones((3, 2)), np.ones((0, 2))], [np.ones((3, 1)), np.ones((0, 1))], 1.0, 128)
    assert output.output is output.lse is None
