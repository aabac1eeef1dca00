"""Signs of sums of powers of L and exponentials: against mpmath, exact zeros, and undecidable cases."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import SeparatrixError
from separatrix.separation.forms import ONE, Exponential, Factor, Form, evaluate, sign, times

fractions = st.fractions(min_value=-3, max_value=3, max_denominator=20)
keys = st.tuples(st.integers(-2, 4), st.builds(Exponential, fractions, st.sampled_from([2, 3])))
forms = st.dictionaries(keys, fractions, min_size=1, max_size=6)


def literal(n: int, form: Form) -> mpmath.mpf:
    L = mpmath.sqrt(mpmath.log(n))
    return mpmath.fsum(
        mpmath.mpf(q.numerator)
        / q.denominator
        * L**p
        * mpmath.exp(mpmath.mpf(E.e.numerator) / E.e.denominator * L**E.r)
        for (p, E), q in form.items()
    )


@settings(max_examples=25)
@given(st.integers(2, 10**30), forms)
def test_values_are_mpmaths(n: int, form: Form) -> None:
    [(value, magnitude)] = evaluate(n, [form])
    with mpmath.workdps(120):
        apart = abs(literal(n, form) - mpmath.mpf(str(value)))
        assert apart <= mpmath.mpf(10) ** -60 * mpmath.mpf(str(magnitude))


@settings(max_examples=25)
@given(st.integers(2, 10**30), forms)
def test_signs_are_mpmaths(n: int, form: Form) -> None:
    with mpmath.workdps(400):
        value = literal(n, form)
        computed = sign(n, form)
        assert computed == mpmath.sign(value) if abs(value) > mpmath.mpf(10) ** -300 else computed == 0


@settings(max_examples=25)
@given(st.integers(2, 10**6), forms)
def test_added_and_subtracted_terms_cancel(n: int, form: Form) -> None:
    """A form minus itself is zero, even if n n^e is subtracted as n^{e + 1}."""
    total: dict[tuple[int, Factor], Fraction] = defaultdict(Fraction)
    for (p, E), q in form.items():
        if E.r == 2:
            total[p, E] += q
            total[p, Exponential(E.e + 1)] -= q / n
    assert sign(n, total) == 0


def test_a_perfect_power_hides_a_zero() -> None:
    """8^{1/3} = 2 and 4^{3/2} = 8, at any power of L; one unit in the fiftieth digit is detected."""
    for n, e, value in ((8, Fraction(1, 3), 2), (4, Fraction(3, 2), 8)):
        form = {(3, Exponential(e)): Fraction(1), (3, ONE): Fraction(-value)}
        assert sign(n, form) == 0
        assert sign(n, {**form, (3, ONE): -value + Fraction(1, 10**50)}) == 1
        assert sign(n, {**form, (3, ONE): -value - Fraction(1, 10**50)}) == -1


def test_other_powers_of_L_do_not_cancel() -> None:
    assert sign(7, {(1, ONE): Fraction(1), (2, ONE): Fraction(-1)}) == -1  # L < L^2 as log 7 > 1
    assert sign(2, {(1, ONE): Fraction(1), (2, ONE): Fraction(-1)}) == 1


@dataclass(frozen=True)
class Opaque:
    """A number of which only approximations can be computed."""

    name: str

    def value(self, L: Decimal) -> Decimal:
        return 2 * L


def test_an_undecidable_sign_is_an_error() -> None:
    twice = {(0, Opaque("x")): Fraction(1), (0, Opaque("y")): Fraction(-1)}
    with pytest.raises(SeparatrixError, match="zero to 1280 digits"):
        sign(5, twice)
    assert sign(5, {(0, Opaque("x")): Fraction(1), (0, Opaque("y")): Fraction(-1, 2)}) == 1


def test_a_formal_zero_needs_no_digits() -> None:
    form = {(0, Opaque("x")): Fraction(0), (1, Exponential(Fraction(2), 3)): Fraction(0)}
    assert sign(5, form) == 0
    assert times(form, Fraction(0)) == {}
