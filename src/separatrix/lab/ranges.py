"""The numbers in a sweep's file: exact decimals, and ranges that include both ends; very long numbers are refused.

>>> spread({"from": decimal("0.1"), "to": decimal("0.5"), "step": decimal("0.1")}, "tau")
[0.1, 0.2, 0.3, 0.4, 0.5]
>>> spread({"from": 1, "to": 1024, "factor": 4}, "m")
[1, 4, 16, 64, 256, 1024]
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.lab.canonical_json import quoted

MOST_VALUES = 100_000
"""The largest number of values that an axis may have, and the largest number of seeds that may be listed."""
MOST_DIGITS = 400
"""The largest number of digits that a number may have."""


def decimal(text: str) -> Decimal:
    """The exact value of a number with a point or an exponent; an error if it is outside the range of a float64."""
    try:
        value = Decimal(text) if len(text) <= MOST_DIGITS else None
    except InvalidOperation:
        value = None
    if value is None or (value.is_finite() and (math.isinf(float(value)) or (value and not float(value)))):
        expected = f"one of at most {MOST_DIGITS} digits, and neither too large nor too small for a float64"
        raise ArgumentError("a number", expected=expected, got=quoted(text, str))
    return value


def checked(value: Any, field: str) -> Any:
    """Return the value if none of its integers has too many digits; an error names the value by `field`."""
    match value:
        case int() if abs(value) >= 10**MOST_DIGITS:
            raise ArgumentError(field, expected=f"an integer of at most {MOST_DIGITS} digits", got="one of more")
        case list():
            return [checked(item, f"{field}[{i}]") for i, item in enumerate(value)]
        case dict():
            return {key: checked(item, f"{field}.{key}") for key, item in value.items()}
    return value


def as_float(value: Any) -> Any:
    """A value of TOML whose decimals are converted to floats."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [as_float(item) for item in value]
        case dict():
            return {key: as_float(item) for key, item in value.items()}
    return value


def spread(table: dict[str, Any], field: str) -> list[int] | list[float]:
    """The values of a range with both ends, as integers if all given numbers are.

    Args:
        table: the keys from, to, and one of step and factor, with their values.
        field: what an error calls the range.
    """
    for key in table:
        if key not in ("from", "to", "step", "factor"):
            raise ArgumentError(f"{field}.{key}", expected="from, to, and one of step and factor", got=repr(key))
    if ("step" in table) == ("factor" in table):
        raise ArgumentError(field, expected="one of step and factor", got="both" if "step" in table else "neither")
    exact = {key: _exact(table.get(key), f"{field}.{key}") for key in ("from", "to", *table)}
    first, last = exact["from"], exact["to"]
    values = _steps(first, last, exact["step"]) if "step" in exact else _powers(first, last, exact["factor"])
    if not values:
        expected = f"a value that the steps reach, within {MOST_VALUES:,} values"
        raise ArgumentError(f"{field}.to", expected=expected, got=quoted(as_float(table["to"])))
    whole = all(isinstance(value, int) for value in table.values())
    try:
        return [a // b for a, b in values] if whole else [a / b for a, b in values]  # exact, or rounded only once
    except OverflowError:
        raise ArgumentError(field, expected="numbers that float64 can represent", got="larger ones") from None


def _steps(first: Fraction, last: Fraction, step: Fraction) -> list[tuple[int, int]]:
    """The values from `first` to `last` in steps, as pairs (a, b) of fractions a / b; none if `last` is not reached."""
    count = (last - first) / step if step else last - first
    if count.denominator > 1 or not 0 <= count < MOST_VALUES or not (step or first == last):
        return []
    below = math.lcm(first.denominator, step.denominator)
    start, stride = int(first * below), int(step * below)
    return [(start + i * stride, below) for i in range(int(count) + 1)]


def _powers(first: Fraction, last: Fraction, factor: Fraction) -> list[tuple[int, int]]:
    """The values from `first` to `last`, each `factor` times the previous one, as fractions; none if `last` is missed.

    The exponent of each prime in a value lies between its exponents in `first` and in `last`. So if the product of
    numerator and denominator of a value exceeds the product of those of both ends, `last` is not reached.
    """
    values = [first]
    most = first.denominator * last.denominator * max(first.numerator, 1) * max(last.numerator, 1)
    while first > 0 and factor > 0 and values[-1] != last and len(values) < MOST_VALUES:
        beyond = (values[-1] > last) == (factor > 1) or factor == 1
        if beyond or values[-1].numerator * values[-1].denominator > most:
            break
        values.append(values[-1] * factor)
    return [(value.numerator, value.denominator) for value in values] if values[-1] == last else []


def _exact(value: Any, field: str) -> Fraction:
    if is_whole(value) or (isinstance(value, Decimal) and value.is_finite()):
        return Fraction(checked(value, field))
    raise ArgumentError(field, expected="a number", got="nothing" if value is None else quoted(as_float(value)))
