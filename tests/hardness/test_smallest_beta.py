"""The smallest beta of Lemma B.1: both borders against mpmath, the order of all outputs, and failures just below."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.hardness.maxip import GapMaxIP, gap_maxip
from separatrix.hardness.padded_attention import log_threshold, pad_for_attention
from separatrix.hardness.smallest_beta import (
    beta_of_the_rule,
    beta_on_exact_outputs,
    largest_of_case_2,
    least_of_case_1,
)

SHAPES = [(3, 6, 1, 2), (5, 12, 5, 6), (8, 10, 3, 6), (10, 20, 9, 10), (12, 20, 10, 20), (4, 16, 15, 16)]
CLOSE = 1e-6


def output(instance: GapMaxIP, beta: float) -> float:
    return float(pad_for_attention(instance, beta).log_outputs()[0])


@pytest.mark.parametrize(("n", "d", "low", "high"), SHAPES)
def test_exact_outputs_change_order_at_the_border(n: int, d: int, low: int, high: int) -> None:
    border = beta_on_exact_outputs(n * n, low, high, 2 * d)
    yes, no = least_of_case_1(n, d, low, high), largest_of_case_2(n, d, low, high)
    assert gap_maxip(yes) == [True]
    assert gap_maxip(no) == [False]
    assert 0 < border <= 2 * d * math.log(n * n) / (high - low)
    assert output(yes, border * (1 + CLOSE)) > output(no, border * (1 + CLOSE))
    assert output(yes, border * (1 - CLOSE)) < output(no, border * (1 - CLOSE))
    assert output(yes, border) == pytest.approx(output(no, border), rel=1e-12)


@pytest.mark.parametrize(("n", "d", "low", "high"), SHAPES)
def test_the_border_solves_its_equation(n: int, d: int, low: int, high: int) -> None:
    z = mpmath.exp(mpmath.mpf(beta_on_exact_outputs(n * n, low, high, 2 * d)) / (2 * d))
    assert abs((z**high - 1) / (n * n * (z**low - 1)) - 1) < 1e-11
    border = mpmath.mpf(beta_of_the_rule(n * n, low, high, d, 2 * d))
    y = border / (2 * d)
    tau, largest = mpmath.exp(d * y), mpmath.exp(low * y)
    assert abs(largest / (largest + 2 + tau) / (mpmath.exp(high * y) / (12 * n * n * tau)) - 1) < 1e-11


@pytest.mark.parametrize(("n", "d", "low", "high"), SHAPES)
@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_no_rule_of_any_kind_where_outputs_are_equal(n: int, d: int, low: int, high: int, share: float) -> None:
    """At some beta below the border M pairs at the lower level weigh as much as one pair at the threshold."""
    some = max(2, round(share * n))
    border = beta_on_exact_outputs(some * n, low, high, 2 * d)
    yes, no = least_of_case_1(n, d, low, high), largest_of_case_2(n, d, low, high, pairs=(some, n))
    assert gap_maxip(no) == [False]
    assert border <= beta_on_exact_outputs(n * n, low, high, 2 * d)
    assert output(yes, border) == pytest.approx(output(no, border), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(2, 5), st.data())
def test_above_the_border_every_multiset_of_products_is_on_its_side(n: int, d: int, data: st.DataObject) -> None:
    """All multisets of n^2 inner products up to d, more than vectors can have, without computing attention."""
    high = data.draw(st.integers(1, d))
    low = data.draw(st.integers(0, high - 1))
    pairs = n * n if n < 3 else 4
    y = (beta_on_exact_outputs(pairs, low, high, 2 * d) * (1 + CLOSE) + CLOSE) / (2 * d)
    sums: dict[bool, list[float]] = {True: [], False: []}
    for products in combinations_with_replacement([*range(low + 1), *range(high, d + 1)], pairs):
        sums[products[-1] >= high].append(math.fsum(math.exp(y * product) for product in products))
    assert min(sums[True]) > max(sums[False])


@pytest.mark.parametrize(("n", "d", "low", "high"), SHAPES)
def test_the_rule_holds_above_its_border_and_fails_just_below(n: int, d: int, low: int, high: int) -> None:
    """The rule holds for the worst errors, + t tilde in case 2 and - t tilde in case 1."""
    border = beta_of_the_rule(n * n, low, high, d, 2 * d)
    no = largest_of_case_2(n, d, low, high)
    for factor, right in ((1 + CLOSE, True), (1 - CLOSE, False)):
        beta = border * factor
        threshold = log_threshold(no, beta, d)
        assert (math.exp(output(no, beta) - threshold) + 1 < 2) == right
    for beta in (border / 100, border / 2, border, 2 * border):
        for yes in (least_of_case_1(n, d, low, high), GapMaxIP(no.a * 0 + 1, no.b * 0 + 1, no.c * 0 + 1, high, 0.5)):
            assert math.exp(output(yes, beta) - log_threshold(yes, beta, d)) - 1 >= 2 * (1 - 1e-12)


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 400), st.data())
def test_the_rules_border_is_where_its_function_crosses_once(n: int, d: int, data: st.DataObject) -> None:
    high = data.draw(st.integers(1, d))
    low = data.draw(st.integers(0, high - 1))
    border = beta_of_the_rule(n * n, low, high, d, 2 * d) / (2 * d)

    def logarithm(y: float) -> float:
        return (high - low) * y + math.log1p(2 * math.exp(-d * y) + math.exp((low - d) * y)) - math.log(12 * n * n)

    assert all(logarithm(border * factor) < 1e-9 for factor in (0.01, 0.3, 0.7, 0.99, 0.9999))
    assert all(logarithm(border * factor) > -1e-9 for factor in (1.0001, 1.01, 1.5, 4, 100))
    assert math.log(12 * n * n - 3) <= (high - low) * border * (1 + 1e-12)
    assert (high - low) * border <= math.log(12 * n * n) * (1 + 1e-12)


@pytest.mark.parametrize(("pairs", "low", "high"), [(1, 3, 4), (4, 0, 2), (2, 1, 2), (3, 1, 9)])
def test_where_every_beta_decides(pairs: int, low: int, high: int) -> None:
    assert beta_on_exact_outputs(pairs, low, high, 10) == 0.0
    for y in (1e-3, 0.1, 1, 5):
        assert math.expm1(high * y) > pairs * math.expm1(low * y)


def test_bad_arguments_are_refused() -> None:
    for inputs, what in [((0, 1, 2, 4), "pairs"), ((4, 2, 2, 4), "low"), ((4, -1, 2, 4), "low")]:
        with pytest.raises(ArgumentError, match=what):
            beta_on_exact_outputs(*inputs)
    with pytest.raises(ArgumentError, match="a blank must outweigh"):
        beta_of_the_rule(4, 1, 3, 2, 8)


def test_the_ratio_to_the_paper_is_ten() -> None:
    """For large n and all else fixed, the beta 40 ln n C / (C_0 eps) of the paper is ten times the exact one."""
    n, d, t = 10**9, 80, 40
    exact = beta_on_exact_outputs(n * n, t // 2, t, 2 * d)
    assert 40 * d / (t * 0.5) * math.log(n) / exact == pytest.approx(10, rel=1e-3)
    for pairs, low in product((4, 90), (1, 8)):
        assert beta_on_exact_outputs(pairs, low, 9, 20) <= beta_of_the_rule(pairs, low, 9, 10, 20)
