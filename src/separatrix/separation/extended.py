"""Extended precision by mpmath: a real number type of 256 bits, and the few functions needed at other precisions.

No other module of the package imports mpmath. mpmath's usual context keeps its precision in a global that its functions
change; the functions of `libmp` take the precision as an argument, and the precision of the context here is never
changed. So nothing here depends on other users of mpmath or other threads, or affects them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath import MPContext, libmp  # type: ignore[import-untyped]

EXTENDED: Any = MPContext()
EXTENDED.prec = 256
"""Real numbers of 256 bits and unbounded exponent. Use only their arithmetic: + - * / and integer powers."""


def real(value: Fraction) -> Any:
    """A fraction as a number of `EXTENDED`."""
    return EXTENDED.mpf(value.numerator) / value.denominator


def log10(value: Any) -> float:
    """The decimal logarithm of a number of `EXTENDED`; -inf at 0.

    >>> log10(EXTENDED.mpf(10) ** -50_000)
    -50000.0
    """
    if value == 0:
        return float("-inf")
    quotient = libmp.mpf_div(libmp.mpf_log(value._mpf_, 128), libmp.mpf_log(libmp.from_int(10), 128), 64)
    return float(libmp.to_float(quotient))


def floor_log(ratio: Fraction) -> int:
    """The natural logarithm of a ratio, rounded down; it is evaluated with 300 bits.

    No rational number but 1 has an integer logarithm, so only a ratio whose logarithm is within about 2^-290 of an
    integer could be rounded to the wrong side.

    >>> floor_log(Fraction(20000)), floor_log(Fraction(1))
    (9, 0)
    """
    value = libmp.mpf_log(libmp.from_rational(ratio.numerator, ratio.denominator, 300), 300)
    return int(libmp.to_int(libmp.mpf_floor(value)))


def fixed_power(n: int, e: Fraction, logs: int, bits: int) -> int:
    """The number n^e (log n)^{-logs/2} in units of 2^-bits, with an error below two units; logs is 0 or 1.

    >>> fixed_power(2, Fraction(1, 2), 0, 10) / 2**10
    1.4140625
    """
    size = max(0, int(e * n.bit_length())) + 1
    # The exponent e log n has up to `size` bits before the point, and its absolute error becomes the relative error of
    # exp. The precision is a multiple of 64 bits, so that one cached logarithm serves several powers.
    precision = (bits + size + size.bit_length() + 30 | 63) + 1
    log_n = _log(n, precision)
    exponent = libmp.mpf_mul(libmp.from_rational(e.numerator, e.denominator, precision), log_n, precision)
    value = libmp.mpf_exp(exponent, precision)
    if logs:
        value = libmp.mpf_div(value, libmp.mpf_sqrt(log_n, precision), precision)
    return int(libmp.to_fixed(value, bits))


def rough_power(n: int, e: Fraction, bits: int) -> tuple[int, int]:
    """The power n^e in units of 2^-bits, and a bound on its error in the same units.

    A power that is too large for this number of correct bits is computed to 256 correct bits instead.

    >>> rough_power(2, Fraction(1, 2), 10) == (fixed_power(2, Fraction(1, 2), 0, 10), 2)
    True
    >>> value, error = rough_power(10**100, Fraction(99, 2), 64)
    >>> abs(value - (10**4950 << 64)) <= error < 10**4950 >> 150
    True
    """
    if e * n.bit_length() + bits <= 1024:
        return fixed_power(n, e, 0, bits), 2
    # The relative error of exp is the absolute error of its argument, which is far below 2^100.
    precision = 384
    exponent = libmp.mpf_mul(libmp.from_rational(e.numerator, e.denominator, precision), _log(n, precision), precision)
    value = int(libmp.to_fixed(libmp.mpf_exp(exponent, precision), bits))
    return value, (value >> 256) + 2


@lru_cache(maxsize=1024)
def _log(n: int, precision: int) -> Any:
    return libmp.mpf_log(libmp.from_int(n), precision)


def binomial_point(N: int, k: int) -> Any:
    """The binomial probability C(N, k) 2^-N.

    The logarithms from which it is computed are of size N log N, so they need the bits of N in addition to those of the
    result.

    >>> print(EXTENDED.nstr(binomial_point(4, 2), 5))
    0.375
    """
    precision = EXTENDED.prec + 2 * N.bit_length() + 20
    total, first, second = (libmp.mpf_loggamma(libmp.from_int(j + 1), precision) for j in (N, k, N - k))
    powers = libmp.mpf_mul_int(libmp.mpf_log(libmp.from_int(2), precision), N, precision)
    log = total
    for part in (first, second, powers):
        log = libmp.mpf_sub(log, part, precision)
    return EXTENDED.make_mpf(libmp.mpf_exp(log, EXTENDED.prec))
