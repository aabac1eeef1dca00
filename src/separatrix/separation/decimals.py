"""Numbers as the paper prints them: 0.2 means one fifth.

The exact probabilities depend on whether sums are equal to tau, so a parameter must be the decimal that was written and
not the binary fraction nearest to it. A float is therefore read as the shortest decimal that prints it.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.extended import floor_log

Number = int | float | str | Decimal | Fraction

_KINDS = "a finite int, float, str, Decimal or Fraction"


def exact(value: Number, argument: str) -> Fraction:
    """The exact value of a number as it is written.

    Args:
        value: the number; a float stands for the shortest decimal that prints it.
        argument: the name of the number in error messages.

    Raises:
        ArgumentError: if `value` is not a finite number.

    Example:
        >>> exact(0.2, "b"), exact("1.2", "a1"), exact(Decimal("0.036"), "a1"), exact(3, "a1")
        (Fraction(1, 5), Fraction(6, 5), Fraction(9, 250), Fraction(3, 1))
        >>> exact(float("nan"), "b")
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: b: expected a finite int, float, str, Decimal or Fraction, got nan.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise ArgumentError(argument, expected=_KINDS, got=repr(value))
    try:
        return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise ArgumentError(argument, expected=_KINDS, got=repr(value)) from error


def log_width(n: int, delta: Number | None = None, least: int = 1, *, constant: Number = 1) -> int:
    """The width m that the paper writes as m = log n, m = C log(n / delta) or m = max(log(n / delta), least).

    **The width is rounded down**, in exact arithmetic.

    The paper does not say how it rounds. This package rounds all such widths in this function.

    Args:
        n: the number of tokens.
        delta: the paper's failure probability delta; None stands for 1, which gives log n.
        least: the width is not smaller than this.
        constant: the C of Definition 3.7.

    Example:
        >>> log_width(1000), log_width(200, delta=0.01), log_width(200, delta=0.01, least=15), log_width(10**100)
        (6, 9, 15, 230)
        >>> log_width(1000, constant="1.5"), log_width(1000, delta="0.01", constant=2)
        (10, 23)
    """
    n = whole("n", n, low=1)
    share = Fraction(1) if delta is None else exact(delta, "delta")
    if not 0 < share <= n:
        raise ArgumentError("delta", expected="0 < delta <= n", got=repr(delta))
    C = exact(constant, "constant")
    if C <= 0:
        raise ArgumentError("constant", expected="a positive number", got=repr(constant))
    # floor(C log x) = floor(floor(log x^p) / q) for C = p / q.
    return max(floor_log((n / share) ** C.numerator) // C.denominator, least)
