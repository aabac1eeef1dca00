from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from separatrix import checks
from separatrix.errors import ArgumentError

NOT_WHOLE = [True, False, 2.0, "2", None, Decimal(2), Fraction(2), np.float64(2), torch.tensor(2.0)]


@pytest.mark.parametrize("value", [*NOT_WHOLE, 0, 6, -1, 10**30])
def test_values_that_are_not_integers_in_the_range(value: object) -> None:
    with pytest.raises(ArgumentError, match="n: expected an integer from 1 to 5, got"):
        checks.whole("n", value, low=1, high=5)


@pytest.mark.parametrize("value", [1, 5, np.int64(3), np.uint8(2), torch.tensor(4)])
def test_an_integer_is_returned_as_an_int(value: int) -> None:
    found = checks.whole("n", value, low=1, high=5)
    assert type(found) is int
    assert found == value


def test_no_largest_number_unless_one_is_given() -> None:
    assert checks.whole("n", 10**100, low=1) == 10**100
    with pytest.raises(ArgumentError, match=r"n: expected an integer >= 1, got 0\."):
        checks.whole("n", 0, low=1)


@pytest.mark.parametrize(
    ("high", "written"), [(2**63 - 1, "2^63 - 1"), (2**31, "2147483648"), (2**40, "1099511627776"), (255, "255")]
)
def test_the_largest_integers_are_powers(high: int, written: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        checks.whole("n", -1, low=0, high=high)
    assert refused.value.expected == f"an integer from 0 to {written}"


@pytest.mark.parametrize("value", [0, 0.0, -1, float("nan"), float("inf"), True, "1", None, 1j])
def test_values_that_are_not_positive_finite_numbers(value: object) -> None:
    with pytest.raises(ArgumentError, match="lr: expected a positive finite number, got"):
        checks.positive("lr", value)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), True, "1", None])
def test_values_that_are_not_finite_numbers(value: object) -> None:
    with pytest.raises(ArgumentError, match="x: expected a finite number, got"):
        checks.finite("x", value)


def test_a_string_is_quoted_in_the_message() -> None:
    """Without its quotes a string such as '1e-3' looks like the expected number."""
    for check in (checks.positive, checks.finite, checks.flag):
        with pytest.raises(ArgumentError, match=r"got '1e-3'\."):
            check("x", "1e-3")
    with pytest.raises(ArgumentError, match=r"got '3'\."):
        checks.whole("x", "3", low=1)


@pytest.mark.parametrize("value", [1, 0.5, Fraction(1, 2), np.float32(0.5)])
def test_a_number_is_returned_as_a_float(value: float) -> None:
    for check in (checks.positive, checks.finite):
        verification = check("x", value)
        assert type(verification) is float
        assert verification == value


@pytest.mark.parametrize("value", ["c", "A", None, 1, ["a"]])
def test_values_that_are_none_of_the_names(value: object) -> None:
    with pytest.raises(ArgumentError, match="kind: expected 'a' or 'b', got"):
        checks.one_of("kind", value, ("a", "b"))


@pytest.mark.parametrize("value", [0, 1, None, "True"])
def test_values_that_are_not_flags(value: object) -> None:
    with pytest.raises(ArgumentError, match="is_causal: expected True or False, got"):
        checks.flag("is_causal", value)


def test_no_other_file_distinguishes_bools_from_integers(root: Path) -> None:
    """Each module uses these checks."""
    package = root / "src" / "separatrix"
    found = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(r"isinstance\([^()]+, bool\)", file.read_text())
    }
    # The numbers of the papers, which may also be decimals or fractions, have their own checks.
    assert found == {"checks.py", "separation/decimals.py"}
