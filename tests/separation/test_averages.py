"""Sums that rounding cannot tell from zero are decided exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from separatrix.separation.averages import Weighted, average, fires, sign_vectors
from separatrix.separation.forms import ONE, Exponential

LITTLE = Fraction(1, 10**12)


@pytest.mark.parametrize(("above", "expected"), [(LITTLE, True), (Fraction(0), False), (-LITTLE, False)])
def test_an_average_just_above_its_threshold(above: Fraction, expected: bool) -> None:
    """The weights are n and n^0 = 1, and the values are equal; a second average is far below its threshold."""
    weights = [{(0, Exponential(Fraction(1))): Fraction(1)}, {(0, ONE): Fraction(1)}]
    near = average(7, 2, [Weighted(weight, [1 + above, Fraction(0)], 1, 3) for weight in weights], (Fraction(1), 1))
    far = average(7, 2, [Weighted(weights[0], [Fraction(0), Fraction(1)], 1, 1)], (Fraction(2), 1))
    assert near is not None
    assert far is not None
    Y = sign_vectors(2)
    assert fires([near, far], Y).tolist() == [expected and y > 0 for y in Y[0]]


def test_weights_of_zero_have_no_average() -> None:
    assert average(7, 1, [Weighted({(0, ONE): Fraction(0)}, [Fraction(1)], 0, 2)], (Fraction(1), 0)) is None


def test_a_range_of_the_sign_vectors() -> None:
    assert np.array_equal(sign_vectors(5, slice(7, 20)), sign_vectors(5)[:, 7:20])
