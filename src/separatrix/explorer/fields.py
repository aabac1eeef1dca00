"""The input fields of a tab. A declaration defines the control, its help, and how its value is parsed.

>>> n = whole("n", "n", "The tokens.", "Definition D.1", low=2, high=10**100, default="200", log=True)
>>> n.read("1e6"), n.read("10^100") == 10**100
(1000000, True)
>>> n.read("2.5")
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: n: expected a whole number from 2 to 10^100, got '2.5'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from separatrix.checks import is_number, one_of
from separatrix.errors import ArgumentError
from separatrix.written_numbers import number_in, spell

LONGEST = 120
"""The largest number of characters of a value; longer values are not parsed."""


@dataclass(frozen=True)
class Scale:
    """The scale of a slider from low to high: logarithmic (in steps of 1, 2, 5) or linear in steps of `step`."""

    low: float
    high: float
    log: bool
    step: str


@dataclass(frozen=True)
class Field:
    """A value by its name in the URL, with its description (`help`), its place in a paper (`place`), and its parser.

    `parse` converts the text to the value, or raises an `ArgumentError`; `default` is a valid text. `choices` are the
    texts of a choice with their labels; `scale` is that of the slider, if there is one. A `shared` field has one value
    when two settings are compared.
    """

    name: str
    label: str
    help: str
    place: str
    default: str
    parse: Callable[[str], Any]
    scale: Scale | None = None
    choices: tuple[tuple[str, str], ...] = ()
    shared: bool = False

    def read(self, text: object) -> Any:
        """Parse a text from the URL or from a control."""
        if is_number(text):
            text = str(text)
        if not isinstance(text, str):
            raise ArgumentError(self.name, expected="a value", got="nothing" if text is None else type(text).__name__)
        if len(text) > LONGEST:
            raise ArgumentError(self.name, expected=f"at most {LONGEST} characters", got=f"{len(text)} of them")
        return self.parse(text.strip())


def whole(
    name: str,
    label: str,
    help: str,
    place: str,
    *,
    low: int,
    high: int,
    default: str,
    log: bool = False,
    shared: bool = False,
) -> Field:
    """A field for an integer from low to high, written as 1000000, 1e6 or 10^6."""

    def parse(text: str) -> int:
        value = number_in(text)
        # The comparison precedes the conversion to int, which is slow for 1e9999.
        if value is None or not low <= value <= high or value != value.to_integral_value():
            raise ArgumentError(name, expected=f"a whole number from {spell(low)} to {spell(high)}", got=repr(text))
        return int(value)

    return Field(name, label, help, place, default, parse, Scale(float(low), float(high), log, "1"), shared=shared)


def decimal(
    name: str,
    label: str,
    help: str,
    place: str,
    *,
    low: str,
    high: str,
    default: str,
    step: str = "0.01",
    places: int = 12,
    log: bool = False,
    shared: bool = False,
) -> Field:
    """A field for an exact decimal from low to high with at most `places` digits after the point.

    >>> decimal("b", "b", "", "", low="0", high="1", default="0.2", places=4).read("0.12345")
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: b: expected a number from 0 to 1 with at most 4 decimals, got '0.12345'.
    """
    least, most = Decimal(low), Decimal(high)

    def parse(text: str) -> Decimal:
        value = number_in(text)
        exponent = None if value is None else value.normalize().as_tuple().exponent
        if value is None or not least <= value <= most or not isinstance(exponent, int) or exponent < -places:
            wanted = f"a number from {spell(least)} to {spell(most)} with at most {places} decimals"
            raise ArgumentError(name, expected=wanted, got=repr(text))
        return value

    scale = Scale(float(least), float(most), log, step)
    return Field(name, label, help, place, default, parse, scale, shared=shared)


def choice(
    name: str, label: str, help: str, place: str, choices: Mapping[str, str], *, default: str, shared: bool = False
) -> Field:
    """A field with few values; `choices` maps the texts in the URL to their labels."""

    def parse(text: str) -> str:
        return one_of(name, text, choices)

    return Field(name, label, help, place, default, parse, choices=tuple(choices.items()), shared=shared)


def words(name: str, label: str, help: str, place: str = "", *, default: str = "", shared: bool = True) -> Field:
    """A field for any text."""
    return Field(name, label, help, place, default, str, shared=shared)
