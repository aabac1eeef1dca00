"""Paths: how the number of classes g = d - 2 (d - 1 in cross-attention) may grow with n, and along which settings.

A path gives g for every n: constant, log n, or a power of n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from separatrix.errors import ArgumentError
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.self_attention import SelfAttention

DELTA = Fraction(1, 100)
MODELS = {
    "ones": {"a1": "1.2", "b": "0.2", "c": "0.8", "weights": "ones"},
    "ones, least a1": {"a1": "0.7", "b": "0.2", "c": "0.8", "weights": "ones"},
    "identity": {"a1": "1.2", "b": "11/61", "c": "60/61", "weights": "identity"},
    "identity, b + c = 1": {"a1": "1.2", "b": "0.2", "c": "0.8", "weights": "identity"},
    "cross": {"a1": "3"},
    "ones, least b": {"a0": "1/1000", "a1": "0.7", "b": "0.1", "c": "0.9", "weights": "ones"},
    "ones, least c": {"a0": "99/1000", "a1": "10", "b": "0.9", "c": "0.1", "weights": "ones"},
    "identity, large b": {"a1": "1.2", "b": "20/29", "c": "21/29", "weights": "identity"},
    "identity, least a1": {"a0": "99/1000", "a1": "1", "b": "39/761", "c": "760/761", "weights": "identity"},
    "cross, least a1": {"a0": "99/1000", "a1": "1001/1000"},
    "cross, large a1": {"a0": "1/1000", "a1": "10"},
}
"""The settings of the experiments, with a0 = 0.01; "identity" has b^2 + c^2 = 1 and b < 0.2, as Theorem E.4 requires.

The last six are at corners of the ranges: a0 near 0 and near 0.1, the smallest a1 and a large one, b or c at 0.1, and a
large b that Lemma E.3 allows."""

PATHS = {
    "ones": ("10", "log n", "n^0.02", "n^0.03", "n^0.1", "n^0.5"),
    "identity": ("10", "n^0.02", "n^0.05", "n^0.1", "n^0.5"),
    "identity, b + c = 1": ("10", "n^0.02", "n^0.05", "n^0.1", "n^0.5"),
    "cross": ("10", "log n", "n^0.02", "n^0.03", "n^0.1", "n^0.5"),
}
ALLOWED = {
    "ones": ("n^0.03", "n^0.1", "n^0.5"),
    "ones, least a1": ("n^0.03", "n^0.1", "n^0.5"),
    "identity": ("n^0.1", "n^0.5"),
    "identity, b + c = 1": ("n^0.5",),
    "cross": ("n^0.03", "n^0.1", "n^0.5"),
    "ones, least b": ("n^0.03", "n^0.1", "n^0.5"),
    "ones, least c": ("n^0.03", "n^0.1", "n^0.5"),
    "identity, least a1": ("n^0.03", "n^0.1", "n^0.5"),
    "cross, least a1": ("n^0.03", "n^0.1", "n^0.5"),
    "cross, large a1": ("n^0.03", "n^0.1", "n^0.5"),
}
"""The paths that the theorems allow: d = omega(n^0.02) for "ones" and "cross"; d = omega(n^(2 b^2 + 0.02)) for
"identity", where 2 b^2 is 0.065 or 0.08, and 0.005 at the least a_1.
"""


def classes(path: str, k: int) -> int:
    """g at n = 10^k: a constant, the logarithm rounded up, or a power rounded down.

    >>> classes("10", 3), classes("log n", 3), classes("n^0.5", 3)
    (10, 7, 31)
    """
    if path == "log n":
        return math.ceil(k * math.log(10))
    base, _, power = path.partition("^")
    if base == "n" and power:
        return int(Decimal(10) ** (Decimal(power) * k))
    if not path.isdigit():
        raise ArgumentError("path", expected="a number, log n, or n^ and an exponent", got=repr(path))
    return int(path)


def parameter(written: str, n: int) -> Fraction:
    """The value of a parameter at n: a number, or a power of n, rounded down.

    >>> parameter("1.2", 10**4), parameter("n^0.5", 10**4), parameter("n^1", 10**4)
    (Fraction(6, 5), Fraction(100, 1), Fraction(10000, 1))
    """
    base, _, power = written.partition("^")
    if base != "n":
        return Fraction(written)
    exponent = Fraction(power)
    with localcontext() as context:
        context.prec = len(str(n)) + 10
        return Fraction(int(Decimal(n) ** (Decimal(exponent.numerator) / exponent.denominator)))


def setting(model: str, n: int, g: int, m: int) -> SelfAttention | CrossAttention:
    """The setting of a model with n tokens in g classes."""
    values = {name: value if name == "weights" else Fraction(value) for name, value in MODELS[model].items()}
    fixed: dict[str, Any] = {"n": n, "m": m, "a0": Fraction(1, 100), "strict": False, **values}
    return CrossAttention(d=g + 1, **fixed) if model.startswith("cross") else SelfAttention(d=g + 2, **fixed)


def passes(result: Mapping[str, Any], level: float = 0.99) -> float | None:
    """log10 of the smallest n such that success is at least `level` from n to the end of the path; None if there is
    none.
    """
    reached = None
    for log10_n, probability in zip(result["log10_n"], result["probability"], strict=True):
        reached = (log10_n if reached is None else reached) if probability >= level else None
    return reached


def rare_from(result: Mapping[str, Any], part: str) -> float | None:
    """log10 of the smallest n from which on `part` fails with probability at most delta / n; None if there is none."""
    reached = None
    for log10_n, failure in zip(result["log10_n"], result[part], strict=True):
        small = failure <= math.log10(DELTA) - log10_n
        reached = (log10_n if reached is None else reached) if small else None
    return reached


def power_of_ten(log10_n: float | None) -> str:
    """The name of an n in a table, as a power of ten.

    >>> power_of_ten(4.0), power_of_ten(None)
    ('n = 10^4', 'no n')
    """
    return "no n" if log10_n is None else f"n = 10^{log10_n:.3g}"
