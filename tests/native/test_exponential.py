"""The kernels' powers of two: their error is proved, and measured for every float.

With n nearest to x and f = x - n in [-1/2, 1/2], the result is 2^n p(f) (see csrc/exponential.hpp):

- n and f have no error. x + ROUNDER is in the range where floats are integers, so it is rounded to an integer; n and f
  are differences of multiples of one unit, and no larger than x. The product with 2^n has no error if it is normal.
- p differs from 2^f. Taylor's formula about the middle of short intervals, in ball arithmetic, encloses this
  difference.
- Horner's scheme rounds: once per coefficient with fused multiply-adds, twice without. A step that starts with the
  error E has the error E|f| after its product, u (|p f| + E|f|) more if the product is rounded, and u times the sum
  more after the sum; underflow is added to that.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from flint import arb, arb_series, ctx, fmpq

from separatrix.attention.arithmetic.assumptions import EXP

SOURCE = Path(__file__).resolve().parents[2] / "csrc" / "exponential.hpp"
TYPES = {"float": np.float32, "double": np.float64}
PARTS = 128  # the number of intervals of [-1/2, 1/2]
DIGITS = 192


@dataclass(frozen=True)
class Source:
    """The C++ source's constants for a type: coefficients as the compiler rounds them, and the ends of the range."""

    coefficients: tuple[Fraction, ...]
    rounder: int
    mantissa: int
    lowest: float


@cache
def source(name: str) -> Source:
    text = SOURCE.read_text().split(f"struct Exponential<{name}> {{")[1].split("\n};")[0]

    def value(of: str) -> str:
        return re.search(rf" {of} = ([^;]*);", text)[1].replace("f", "")

    literals = re.search(r"C\[\] = \{([^}]*)\}", text)[1].replace("f", "").split(",")
    rounded = tuple(nearest(literal.strip(), name) for literal in literals)
    assert len(rounded) == int(value("DEGREE")) + 1
    rounder = sum(int(float(part)) for part in value("ROUNDER").split("+"))
    return Source(rounded, rounder, int(value("MANTISSA")), float(TYPES[name](float(value("LOWEST")))))


def nearest(literal: str, name: str) -> Fraction:
    """The number of a type nearest to a decimal one, without intermediate rounding to float64."""
    near = TYPES[name](float(literal))
    with_neighbours = [near, np.nextafter(near, TYPES[name](-9)), np.nextafter(near, TYPES[name](9))]
    return min((Fraction(float(x)) for x in with_neighbours), key=lambda x: abs(x - Fraction(literal)))


def exact(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def unit(name: str) -> arb:
    return arb(2) ** -(source(name).mantissa + 1)


def of_polynomial(c: list[arb], middle: arb, radius: arb) -> arb:
    """The largest |p(f) 2^-f - 1| on a ball, by Taylor's formula with its remainder."""
    terms = len(c) + 4

    def series(at: arb) -> arb_series:
        x = arb_series([at, 1], prec=terms + 1)
        p = arb_series([c[-1]], prec=terms + 1)
        for coefficient in reversed(c[:-1]):
            p = p * x + coefficient
        return p * (-(x * arb(2).log())).exp() - 1

    t, about = arb(0, radius), series(middle)
    total = series(middle + t)[terms]
    for j in reversed(range(terms)):
        total = total * t + about[j]
    return abs(total).upper()


def of_rounding(c: list[arb], f: arb, u: arb, smallest: arb, fused: bool) -> arb:
    """The largest relative error of p(f) on a ball, as Horner's scheme computes it."""
    size, p, error = abs(f).upper(), c[-1], arb(0)
    for coefficient in reversed(c[:-1]):
        error = error * size
        if not fused:
            error += u * (abs(p * f).upper() + error) + smallest
        p = p * f + coefficient
        error += u * (abs(p).upper() + error) + smallest
    return (error / abs(p)).upper()


@cache
def bound(name: str, fused: bool) -> float:
    """The proved bound on the error of a power of two of a type, in units in the last place."""
    before, ctx.prec = ctx.prec, DIGITS
    try:
        c, u = [exact(x) for x in source(name).coefficients], unit(name)
        smallest = arb(2) ** (-149 if name == "float" else -1074)
        worst, radius = arb(0), arb(1) / (2 * PARTS)
        for k in range(PARTS):
            middle = arb(-1) / 2 + (2 * k + 1) * radius
            polynomial = of_polynomial(c, middle, radius)
            rounding = of_rounding(c, middle + arb(0, radius), u, smallest, fused)
            worst = worst.max(((1 + polynomial) * (1 + rounding) - 1) / u)
        return float(np.nextafter(float(worst.upper()), np.inf))
    finally:
        ctx.prec = before


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_the_error_is_proved(name: str, fused: bool) -> None:
    promised = re.search(r"the error is below ([0-9.]+) units in the last place", SOURCE.read_text())
    assert promised is not None, "the comment of the exponential states no error"
    assert 1 < bound(name, fused) < float(promised[1]) < EXP


def test_a_worse_polynomial_is_detected() -> None:
    """The fifth coefficient of the Taylor series: a polynomial that is not optimal on the interval."""
    before, ctx.prec = ctx.prec, DIGITS
    try:
        c = [exact(x) for x in source("float").coefficients]
        assert of_polynomial(c, arb(0.49), arb(0.01)) < unit("float")
        c[5] = arb(2).log() ** 5 / 120
        assert of_polynomial(c, arb(0.49), arb(0.01)) > 2 * unit("float")
    finally:
        ctx.prec = before


@pytest.mark.parametrize("name", TYPES)
def test_the_integer_part_has_no_error(name: str) -> None:
    """Sums with ROUNDER are integers, and their last bits are n and the bias: the proof assumes this."""
    told, info = source(name), np.finfo(TYPES[name])
    bias, highest = info.maxexp - 1, info.maxexp - 1
    assert 2**told.mantissa <= told.rounder + told.lowest
    assert told.rounder + highest + 1 < 2 ** (told.mantissa + 1)
    assert told.mantissa == info.nmant
    assert (told.rounder - bias) % 2 ** (info.bits - told.mantissa) == 0
    # 2^n times at least 2^-1/2 minus a few units is normal, and n + bias never reaches the sign bit.
    assert info.minexp + 1 < round(told.lowest) < highest + bias < 2 ** (info.bits - 1 - told.mantissa) - 1


def exp2(library: ctypes.CDLL, x: np.ndarray) -> np.ndarray:
    result = np.empty_like(x)
    number = ctypes.c_int64(list(TYPES.values()).index(x.dtype.type))
    addresses = (ctypes.c_void_p(each.ctypes.data) for each in (x, result))
    assert library.separatrix_exp2(number, ctypes.c_int64(x.size), *addresses) == 0
    return result


def is_fused(architecture: str) -> bool:
    return architecture != "baseline"


def units_of_floats(found: np.ndarray, truth: np.ndarray) -> float:
    """The largest error of floats relative to float64 results, whose own error is about 2^-28 units."""
    return float(np.max(np.abs(found / truth - 1))) * 2**24


def float_blocks(size: int) -> Iterator[np.ndarray]:
    """All floats between LOWEST and 127, the positive ones first."""
    for sign, end in ((0, 127.0), (1 << 31, source("float").lowest)):
        last = int(np.float32(abs(end)).view(np.uint32))
        for first in range(0, last + 1, size):
            bits = np.arange(first, min(first + size, last + 1), dtype=np.uint32)
            yield (bits | np.uint32(sign)).view(np.float32)


def test_a_sample_of_floats(library: ctypes.CDLL, architecture: str) -> None:
    """Two million floats of all magnitudes, and those near half-integers, where n changes."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, 1 << 32, 1 << 21, dtype=np.uint32).view(np.float32)
    spread = random.uniform(-114, 127, 1 << 20).astype(np.float32)
    halves = np.arange(-226, 255, dtype=np.float32) / 2
    x = np.concatenate([drawn, spread, halves, *(np.nextafter(halves, np.float32(end)) for end in (-999, 999))])
    x = x[(x >= source("float").lowest) & (x <= 127)]
    worst = units_of_floats(exp2(library, x), np.exp2(x.astype(np.float64)))
    assert 1 < worst < bound("float", is_fused(architecture))


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_every_float(library: ctypes.CDLL, architecture: str) -> None:
    worst, count = 0.0, 0
    for x in float_blocks(1 << 24):
        worst = max(worst, units_of_floats(exp2(library, x), np.exp2(x.astype(np.float64))))
        count += x.size
    assert count > 2**31
    print(f"{architecture}: {count:,} floats, at most {worst:.4f} u")
    assert 1 < worst < bound("float", is_fused(architecture))


def test_a_sample_of_doubles(library: ctypes.CDLL, architecture: str) -> None:
    random = np.random.default_rng(1)
    low = source("double").lowest
    halves = np.arange(-60, 60) / 2
    near = [np.nextafter(halves, end) for end in (-9e9, 9e9)]
    tiny = np.ldexp(random.uniform(-1, 1, 200), random.integers(-1070, 0, 200))
    x = np.concatenate(
        [random.uniform(low, 1023, 10000), random.uniform(-1, 1, 5000), halves, *near, tiny, [low, 1023]]
    )
    before, ctx.prec = ctx.prec, DIGITS
    try:
        pairs = zip(exp2(library, x).tolist(), x.tolist(), strict=True)
        worst = max(float((abs(arb(y) / arb(2) ** arb(power) - 1) / unit("double")).upper()) for y, power in pairs)
    finally:
        ctx.prec = before
    assert 1 < worst < bound("double", is_fused(architecture))


@pytest.mark.parametrize("name", TYPES)
def test_whole_powers_are_exact(library: ctypes.CDLL, architecture: str, name: str) -> None:
    info = np.finfo(TYPES[name])
    powers = np.arange(info.minexp, info.maxexp)
    assert np.array_equal(exp2(library, powers.astype(info.dtype)), np.ldexp(info.dtype.type(1), powers))
    assert exp2(library, np.array([-0.0, 0.0], info.dtype)).tolist() == [1, 1]


@pytest.mark.parametrize("name", TYPES)
def test_the_ends_of_the_range_are_normal_numbers(library: ctypes.CDLL, architecture: str, name: str) -> None:
    info, low = np.finfo(TYPES[name]), source(name).lowest
    x = np.array([low, np.nextafter(info.dtype.type(low), info.dtype.type(0)), info.maxexp - 1], info.dtype)
    powers = exp2(library, x)
    assert np.isfinite(powers).all()
    assert (powers >= info.smallest_normal).all()
    assert powers == pytest.approx(np.exp2(x.astype(np.longdouble)).astype(np.float64), rel=4 * float(info.eps))


@pytest.mark.parametrize("name", TYPES)
def test_nan_stays_nan(library: ctypes.CDLL, architecture: str, name: str) -> None:
    """Quiet and signalling NaNs, of either sign and with any payload, stay NaN in every lane next to numbers."""
    bits, mantissa = (np.uint32, 23) if name == "float" else (np.uint64, 52)
    exponent = (1 << (31 if name == "float" else 63)) - (1 << mantissa)
    payloads = [1, 2, 1 << (mantissa - 1), (1 << mantissa) - 1, (1 << (mantissa - 1)) + 5, 1 << (mantissa // 2)]
    sign = 1 << (31 if name == "float" else 63)
    given = np.array([exponent + payload + s for payload in payloads for s in (0, sign)], bits).view(TYPES[name])
    assert np.isnan(given).all()
    assert np.isnan(exp2(library, given)).all()
    for lane in range(33):
        x = np.zeros(33, TYPES[name])
        x[lane] = given[lane % len(given)]
        powers = exp2(library, x)
        assert np.isnan(powers[lane])
        assert np.isfinite(np.delete(powers, lane)).all()


@pytest.mark.parametrize("name", TYPES)
def test_a_result_depends_on_its_power_alone(library: ctypes.CDLL, architecture: str, name: str) -> None:
    """Any count and any memory offset gives the same bits, and nothing is written beyond the last number."""
    x = np.random.default_rng(2).uniform(-100, 100, 80).astype(TYPES[name])
    whole = exp2(library, x)
    for start in range(3):
        for count in range(40):
            into = np.full(count + 1, 7, x.dtype)
            part = np.ascontiguousarray(x[start : start + count])
            addresses = (ctypes.c_void_p(each.ctypes.data) for each in (part, into))
            number = ctypes.c_int64(list(TYPES).index(name))
            assert library.separatrix_exp2(number, ctypes.c_int64(count), *addresses) == 0
            assert np.array_equal(into, [*whole[start : start + count], 7])
