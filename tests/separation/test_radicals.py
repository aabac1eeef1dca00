"""Signs of sums of powers, ties included, and binomial tails."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import SeparatrixError
from separatrix.separation.binomial import exactly, tails, total
from separatrix.separation.extended import EXTENDED
from separatrix.separation.radicals import power, primitive_root, sign

exponents = st.fractions(-3, 3, max_denominator=12)


@given(
    st.integers(2, 10**6), st.lists(st.tuples(st.integers(-(10**6), 10**6), exponents, st.integers(0, 1)), max_size=5)
)
def test_sign_against_many_digits(n: int, terms: list[tuple[int, Fraction, int]]) -> None:
    with mpmath.workdps(120):
        log = mpmath.log(n)
        value = sum(q * mpmath.exp(e.numerator * log / e.denominator) / log ** (mpmath.mpf(k) / 2) for q, e, k in terms)
        expected = 0 if abs(value) < mpmath.mpf(10) ** -90 else int(mpmath.sign(value))
    assert sign(n, terms) == expected


@given(st.integers(2, 30), st.integers(1, 12), exponents, st.integers(1, 1000))
def test_equal_powers_cancel(r: int, q: int, e: Fraction, coefficient: int) -> None:
    """n^e = r^{q e}: the difference of the two forms is zero; with one unit more it is not."""
    n = r**q
    integer, rest = divmod(q * e, 1)
    numerator, denominator = (Fraction(r) ** int(integer)).as_integer_ratio()
    same = [(coefficient * denominator, e, 0), (-coefficient * numerator, rest / q, 0)]
    assert sign(n, same) == 0
    assert sign(n, [*same, (1, Fraction(-2), 1)]) == 1


def test_a_tie_broken_in_the_hundredth_digit() -> None:
    n = 10**100
    tie = [(9, Fraction(0), 0), (-9, Fraction(0), 0)]
    assert sign(n, tie) == 0
    assert sign(n, [*tie, (-1, Fraction(-99, 100), 0)]) == -1
    assert sign(n, [(1, Fraction(1, 2), 0), (-(10**50), Fraction(0), 0)]) == 0


def test_coefficients_that_cancel_on_different_powers() -> None:
    assert sign(2, [(1, Fraction(1, 2), 0), (-1, Fraction(0), 0)]) == 1
    assert sign(4, [(1, Fraction(1, 3), 0), (1, Fraction(1, 6), 0), (-2, Fraction(1, 4), 0)]) == 1


def test_near_ties_need_more_bits() -> None:
    """sqrt(n) for n = k^2 + 1 differs from k by 1 / (2 k), which 64 bits do not resolve for k = 10^40."""
    k = 10**40
    assert sign(k * k + 1, [(1, Fraction(1, 2), 0), (-k, Fraction(0), 0)]) == 1
    assert sign(k * k - 1, [(1, Fraction(1, 2), 0), (-k, Fraction(0), 0)]) == -1


@given(st.integers(2, 10**12))
def test_primitive_root(n: int) -> None:
    r, q = primitive_root(n)
    assert r**q == n
    assert primitive_root(r) == (r, 1)


@pytest.mark.parametrize("logs", [0, 1])
@pytest.mark.parametrize("e", [Fraction(5, 3), Fraction(-7, 2), Fraction(1)])
@pytest.mark.parametrize("n", [2, 200, 10**100])
def test_fixed_point_error(n: int, e: Fraction, logs: int) -> None:
    with mpmath.workdps(700):
        exact = mpmath.mpf(n) ** (mpmath.mpf(e.numerator) / e.denominator) / mpmath.log(n) ** (mpmath.mpf(logs) / 2)
        for bits in (3, 64, 200):
            assert abs(exact * mpmath.mpf(2) ** bits - power(n, e, logs, bits)) < 2


@pytest.mark.parametrize("N", [2048, 2049, 3001])
def test_tails_of_a_binomial(N: int) -> None:
    for k in (0, 1, N // 3, N // 2 - 40, N // 2, N // 2 + 1, N // 2 + 90, N - 1, N):
        expected = Fraction(sum(comb(N, j) for j in range(k, N + 1)), 2**N)
        share = EXTENDED.mpf(tails(N)[k]) / total(N)
        assert abs(share * expected.denominator / expected.numerator - 1) < EXTENDED.mpf(10) ** -55
        point = EXTENDED.mpf(exactly(N, k)) / total(N)
        assert abs(point * 2**N / comb(N, k) - 1) < EXTENDED.mpf(10) ** -55
    assert tails(N)[N + 1] == tails(N)[N + 2] == 0


def test_a_tail_that_would_take_too_long() -> None:
    with pytest.raises(SeparatrixError, match="needs more than 20000000 terms"):
        tails(10**20)[5 * 10**19 + 1]
    assert 0 < tails(10**20)[10**20] < EXTENDED.mpf(10) ** -(10**19)
