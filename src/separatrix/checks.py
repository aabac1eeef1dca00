"""Checks of arguments: integers, positive numbers, flags, names out of a list.

A check returns the value that it accepts and raises an `ArgumentError` for any other value. `True` is never a number.

>>> whole("q", 3, low=1, high=5)
3
>>> whole("q", 9, low=1, high=5)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: q: expected an integer from 1 to 5, got 9.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from numbers import Real
from typing import TypeGuard, TypeVar

from separatrix.errors import ArgumentError

__all__ = ["either", "finite", "flag", "is_number", "is_whole", "one_of", "positive", "whole"]

Name = TypeVar("Name", bound=str)


def is_whole(value: object, *, low: int | None = None, high: int | None = None) -> TypeGuard[int]:
    """Whether a value is an int from low to high, if these are given; a bool is not.

    >>> is_whole(3), is_whole(True), is_whole(3.0), is_whole(3, low=4)
    (True, False, False, False)
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return (low is None or low <= value) and (high is None or value <= high)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, finite or not; a bool is not.

    >>> is_number(0.5), is_number(2), is_number(True), is_number("2")
    (True, True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(argument: str, value: object, *, low: int, high: int | None = None) -> int:
    """Return an integer from low to high, of Python or NumPy, as an int.

    Args:
        argument: the name of the argument, for the message.
        value: the value to check.
        low: the smallest allowed integer.
        high: the largest allowed integer; None for no limit.

    Raises:
        ArgumentError: the value is not an integer, or is out of range.

    Example:
        >>> whole("seed", -1, low=0, high=2**63 - 1)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: seed: expected an integer from 0 to 2^63 - 1, got -1.
    """
    expected = f"an integer >= {low}" if high is None else f"an integer from {low} to {_written(high)}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(argument, expected=expected, got=repr(value)) from None
    if isinstance(value, bool) or not is_whole(number, low=low, high=high):
        raise ArgumentError(argument, expected=expected, got=repr(value))
    return number


def _written(number: int) -> str:
    """Format an integer; those near 2^31 and 2^63 as powers of two."""
    bits = number.bit_length()
    return f"2^{bits} - 1" if bits > 32 and number == 2**bits - 1 else str(number)


def finite(argument: str, value: object) -> float:
    """Return a finite real number as a float.

    >>> finite("scale", float("inf"))
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: scale: expected a finite number, got inf.
    """
    if not is_number(value) or not math.isfinite(value):
        raise ArgumentError(argument, expected="a finite number", got=repr(value))
    return float(value)


def positive(argument: str, value: object) -> float:
    """Return a finite positive number as a float.

    >>> positive("lr", 0)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: lr: expected a positive finite number, got 0.
    """
    if not is_number(value) or not 0 < value < math.inf:
        raise ArgumentError(argument, expected="a positive finite number", got=repr(value))
    return float(value)


def flag(argument: str, value: object) -> bool:
    """Return True or False; 0, 1 and other values that are merely truthy or falsy raise an error.

    >>> flag("is_causal", 1)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: is_causal: expected True or False, got 1.
    """
    if not isinstance(value, bool):
        raise ArgumentError(argument, expected="True or False", got=repr(value))
    return value


def one_of(argument: str, value: object, names: Iterable[Name]) -> Name:
    """Return the value if it is one of several names.

    >>> one_of("road", "protocol", ("direct", "protocol"))
    'protocol'
    >>> one_of("road", "detour", ("direct", "protocol"))
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: road: expected 'direct' or 'protocol', got 'detour'.
    """
    known = list(names)
    for name in known:
        if isinstance(value, str) and value == name:
            return name
    raise ArgumentError(argument, expected=either(known), got=repr(value))


def either(names: Iterable[str]) -> str:
    """Format names as alternatives.

    >>> either(["a"]), either(["a", "b"]), either(["a", "b", "c"])
    ("'a'", "'a' or 'b'", "'a', 'b' or 'c'")
    """
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last
