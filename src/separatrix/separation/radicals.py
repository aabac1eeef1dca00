r"""The exact sign of a sum of integer multiples of powers of n.

Whether a row of attention fires is decided by the sign of a finite sum

    v = sum_i q_i n^{e_i} (log n)^{-l_i / 2},     q_i integer, e_i rational, l_i in {0, 1}

(the logarithms come only from a tau that the caller gives in absolute terms). The sum is evaluated in fixed point with
an error bound. If the bound does not exclude zero, it is first decided whether v *is* zero, and only if not is the
number of bits doubled until the bound excludes zero. So the loop ends, and no tolerance is involved.

When is v zero? Write n = r^q with r not a perfect power. Then X^k - r is irreducible over the rationals for every k, so
the powers r^f with distinct f in [0, 1) are linearly independent: v (without logarithms) is zero exactly when, for
every fractional part f of q e_i, the terms with that fractional part cancel. And log n is transcendental (Lindemann),
so a sum with logarithms is zero only if both its parts are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from separatrix.separation.extended import fixed_power

Term = tuple[int, Fraction, int]
"""The triple (q, e, l) stands for the term q n^e (log n)^{-l/2}."""


@lru_cache(maxsize=4096)
def power(n: int, e: Fraction, logs: int, bits: int) -> int:
    """The number n^e (log n)^{-logs/2} in units of 2^-bits, with an error below two units; exact for e = logs = 0.

    >>> power(5, Fraction(0), 0, 3)
    8
    """
    return fixed_power(n, e, logs, bits) if e or logs else 1 << bits


@lru_cache(maxsize=1024)
def primitive_root(n: int) -> tuple[int, int]:
    """The pair (r, q) with n = r^q and the largest possible q.

    >>> primitive_root(64), primitive_root(200), primitive_root(10**100)
    ((2, 6), (200, 1), (10, 100))
    """
    for q in range(n.bit_length(), 1, -1):
        root = _integer_root(n, q)
        if root**q == n:
            return root, q
    return n, 1


def _integer_root(n: int, q: int) -> int:
    """The floor of the q-th root of n, by Newton's iteration from above."""
    x = 1 << -(-n.bit_length() // q)
    while True:
        y = ((q - 1) * x + n // x ** (q - 1)) // q
        if y >= x:
            return x
        x = y


@lru_cache(maxsize=1024)
def _split(n: int, e: Fraction) -> tuple[int, tuple[int, int]]:
    """The integer part of q e, where n = r^q, and its fractional part as numerator and denominator."""
    integer, fraction = divmod(primitive_root(n)[1] * e, 1)
    return int(integer), (fraction.numerator, fraction.denominator)


def _is_zero(n: int, terms: Iterable[Term]) -> bool:
    parts: dict[tuple[int, tuple[int, int]], list[tuple[int, int]]] = defaultdict(list)
    for coefficient, e, logs in terms:
        integer, fraction = _split(n, e)
        parts[logs, fraction].append((coefficient, integer))
    # Dividing by the smallest power makes all terms integers; fractions with numerators of 10^4 digits would take a
    # hundred times as long.
    r, _ = primitive_root(n)
    for part in parts.values():
        least = min(integer for _, integer in part)
        if sum(coefficient * r ** (integer - least) for coefficient, integer in part):
            return False
    return True


def sign(n: int, terms: Iterable[Term]) -> int:
    """The sign (-1, 0, 1) of the sum of the terms, for an integer n >= 2.

    >>> sign(8, [(1, Fraction(1, 3), 0), (-2, Fraction(0), 0)])  # the cube root of 8, minus 2
    0
    >>> sign(10**100, [(1, Fraction(0), 0), (1, Fraction(-99, 100), 0), (-1, Fraction(0), 0)])
    1
    """
    terms = tuple(terms)
    if _is_zero(n, terms):
        return 0
    bits = 64
    while True:
        value = sum(q * power(n, e, logs, bits) for q, e, logs in terms)
        if abs(value) > 2 * sum(abs(q) for q, _, _ in terms):
            return 1 if value > 0 else -1
        bits *= 2
