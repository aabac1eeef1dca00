"""Parses and formats numbers as users write them in commands, form fields and URLs: 1000000, 1,000,000, 1e6, 10^6.

>>> number_in("1e6") == number_in("10^6") == number_in("1000000") == 10**6
True
>>> number_in("1/2") is None
True
"""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", re.ASCII)
_POWER = re.compile(r"10\^(-?\d{1,4})", re.ASCII)


def number_in(text: str) -> Decimal | None:
    """Parse a finite decimal number; None for anything else. Exponents have at most four digits.

    >>> number_in("10^-2"), number_in("1,000"), number_in("1,00"), number_in("nan")
    (Decimal('0.01'), Decimal('1000'), None, None)
    """
    power = _POWER.fullmatch(text)
    if power:
        return Decimal(1).scaleb(int(power.group(1)))
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def spell(value: int | Decimal) -> str:
    """Format a bound in the shortest of these notations.

    >>> spell(10**100), spell(2 * 10**7), spell(200), spell(Decimal("0.05"))
    ('10^100', '2e7', '200', '0.05')
    """
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    head, zeros = re.fullmatch(r"(.*?)(0*)", text).groups()  # type: ignore[union-attr]
    if "." in text or len(zeros) < 5:
        return text
    return f"10^{len(zeros)}" if head == "1" and len(zeros) > 9 else f"{head}e{len(zeros)}"
