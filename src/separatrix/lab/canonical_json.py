"""Plain values, which parameters must be, and the canonical form in which each is written.

The canonical form is JSON with sorted keys, no spaces, ASCII only. A float is written as Python's `repr`, the shortest
text that reads back as the same float64, so `1` and `1.0` stay different. JSON has no infinities: they are written
``{"$float":"inf"}``, and keys that begin with ``$`` are reserved for such marks.

>>> canonical({"tau": 0.25, "n": 8, "cap": float("inf")})
'{"cap":{"$float":"inf"},"n":8,"tau":0.25}'
>>> read(canonical([1, 1.0, -0.0, float("-inf"), None, "é"]))
[1, 1.0, -0.0, -inf, None, 'é']
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from separatrix.errors import ArgumentError

Plain = Any
"""None, bool, int, float, str, a list of plain values, or a dict from strings to them."""

_LARGEST_EXACT = 2**53
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def quoted(value: Any, spell: Callable[[Any], str] = repr) -> str:
    """A value as an error quotes it, truncated to 80 characters; `spell` converts it to text.

    >>> quoted([1, 2]), len(quoted("x" * 10**6))
    ('[1, 2]', 80)
    """
    try:
        text = spell(value)
    except ValueError:  # an integer of thousands of digits
        return "an integer of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def refuse(value: Any, name: str) -> Plain:
    """Raise the error for a value that is not plain; the message calls the value `name`."""
    raise ArgumentError(
        name, expected="None, a bool, a number, a string, or a list or dict of these", got=quoted(value)
    )


def canonical(value: Any, name: str = "value", convert: Callable[[Any, str], Plain] = refuse) -> str:
    """The canonical text of a value.

    Args:
        value: the value.
        name: what an error calls the value.
        convert: a function of a value that is not plain and its name, which returns a plain value in its place; by
            default it raises an error.
    """
    return _ENCODER.encode(_marked(value, name, convert))


def _marked(value: Any, name: str, convert: Callable[[Any, str], Plain]) -> Plain:
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
        case list() | tuple():
            return [_marked(item, f"{name}[{i}]", convert) for i, item in enumerate(value)]
        case Mapping():
            for key in value:
                if not isinstance(key, str) or key.startswith("$"):
                    raise ArgumentError(name, expected="keys that are strings and do not begin with $", got=repr(key))
            return {str(key): _marked(item, f"{name}.{key}", convert) for key, item in value.items()}
    return convert(value, name)


def read(text: str) -> Plain:
    """The value of a canonical text."""
    return json.loads(text, object_hook=unmarked)


def unmarked(table: dict[str, Plain]) -> Plain:
    """The float that a dict encodes, if it encodes a float, otherwise the dict itself."""
    return float(table["$float"]) if table.keys() == {"$float"} else table


def fitted(value: Plain, hint: Any, name: str) -> Plain:
    """The value converted to the type of a hint.

    An integer is accepted for `float` and converted, so that `1` and `1.0` are the same cell if the parameter is a
    float. A NaN is accepted for no type: it does not equal itself, so the store could not find the cell again.

    Args:
        value: the value.
        hint: the type hint.
        name: what an error calls the value.

    Raises:
        ArgumentError: if the value does not fit.

    Example:
        >>> fitted(1, float, "tau"), fitted([1, 2], list[int], "widths"), fitted(None, int | None, "cap")
        (1.0, [1, 2], None)
        >>> fitted("big", int, "n")
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: n: expected an integer, got 'big'.
    """
    parts = get_args(hint)
    match get_origin(hint):
        case None if hint is float and type(value) is int:
            if abs(value) > _LARGEST_EXACT:
                raise ArgumentError(name, expected="a number that a float64 holds exactly", got=quoted(value))
            return float(value)
        case None if type(value) is hint and not (hint is float and math.isnan(value)):
            return value
        case x if x is Literal and any(type(value) is type(part) and value == part for part in parts):
            return value
        case x if x in (Union, UnionType):
            for part in sorted(parts, key=lambda part: type(value) is not part):
                try:
                    return fitted(value, part, name)
                except ArgumentError:
                    continue
        case x if x is list and isinstance(value, list | tuple):
            return [fitted(item, parts[0], f"{name}[{i}]") for i, item in enumerate(value)]
        case x if x is dict and isinstance(value, Mapping):
            return {fitted(key, str, name): fitted(item, parts[1], f"{name}.{key}") for key, item in value.items()}
    raise ArgumentError(name, expected=spelled(hint), got=quoted(value))


def spelled(hint: Any) -> str:
    """A type hint in words.

    Raises:
        TypeError: if the hint is not a type of plain values.

    Example:
        >>> spelled(list[float] | None), spelled(Literal["ones", "identity"])
        ('a list of numbers or None', "'ones' or 'identity'")
    """
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string", NoneType: "None"}
    parts = get_args(hint)
    match get_origin(hint):
        case None if hint in words:
            return words[hint]
        case x if x is Literal:
            return " or ".join(map(repr, parts))
        case x if x in (Union, UnionType):
            return " or ".join(map(spelled, parts))
        case x if x is list and parts:
            plural = {int: "integers", float: "numbers", bool: "true or false", str: "strings"}
            return f"a list of {plural.get(parts[0]) or f'values, each {spelled(parts[0])}'}"
        case x if x is dict and parts and parts[0] is str:
            return f"a table of values, each {spelled(parts[1])}"
    raise TypeError(
        f"{hint!r} is not a type of plain values (int, float, bool, str, None, Literal, list[T], dict[str, T])"
    )
