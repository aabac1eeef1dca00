"""The firing thresholds against the definition: the exact sign at every P_1."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.separation import firing
from separatrix.separation.extended import fixed_power, rough_power
from separatrix.separation.firing import Classes, firing_thresholds
from separatrix.separation.rows import cross_attention_networks, self_attention_networks

SIGNS = [(first, own, last) for last in (1, -1) for first in (1, -1) for own in (1, -1)]
tenths = st.integers(0, 50).map(lambda k: Fraction(k, 10))
"""Coefficients from a coarse grid, so that they often cancel."""


def literal(network, classes: Classes, own: int, signs, P2: int) -> int:
    """The least P_1 at which an existing row fires."""
    N = (classes.number[0] - (own == 0), classes.number[1] - (own == 1))
    powers = [(0, 0)] * len(network.exponents)  # the exact sign ignores them
    lines = [line for row in network.rows for line in firing._lines(network, powers, row, classes, own, N)]
    for P1 in range(N[0] + 1):
        for line in lines:
            there = line.query != 1 or (P2 > 0) == (line.query_sign > 0)
            if there and line.range[0] <= P1 <= line.range[1] and line._sign(signs, P1, P2) > 0:
                return P1
    return N[0] + 1


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([7, 200, 10**6, 10**30 + 1, 10**86, 10**100, 2**300]),
    d=st.integers(3, 9),
    a=tenths,
    b=tenths,
    c=tenths.filter(bool),
    kind=st.sampled_from(["identity", "ones", "cross"]),
    own=st.integers(0, 1),
)
def test_thresholds_are_those_of_the_exact_signs(n, d, a, b, c, kind, own) -> None:
    tau = c + Fraction(1, 10)
    if kind == "cross":
        networks, classes = cross_attention_networks(n, a, tau), Classes.split(n, d - 1)
    else:
        networks, classes = self_attention_networks(n, a, b, c, tau, 0, kind), Classes.split(n, d - 2)
    if classes.number[own] == 0 or classes.size[own] == 0:
        return
    for network in networks:
        thresholds = firing_thresholds(network, classes, own, (1, -1))
        for signs in SIGNS:
            expected = [literal(network, classes, own, signs, P2) for P2 in range(len(thresholds[signs]))]
            assert list(thresholds[signs]) == expected, signs


@pytest.mark.parametrize("n", [3, 10**20, 10**100 - 7, 10**100])
@pytest.mark.parametrize(
    "e", [Fraction(-3, 7), Fraction(1, 10**8), Fraction(7, 3), Fraction(99, 2), Fraction(25 * 10**4 + 1, 10**4)]
)
def test_a_rough_power_is_as_near_as_it_says(n: int, e: Fraction) -> None:
    value, error = rough_power(n, e, 64)
    assert abs(value - fixed_power(n, e, 0, 64)) <= error + 2  # the other one has an error of at most two units
    assert error <= (value >> 256) + 2
