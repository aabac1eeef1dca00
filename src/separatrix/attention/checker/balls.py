"""Ball arithmetic: exact conversion of tensors to arb's balls, and other helpers of this package.

A ball [m +- r] is the set of numbers within r of m. An operation of python-flint on balls returns a ball that contains
every result for numbers in them, at any precision; a comparison that is True holds for all these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flint import arb, arb_mat, ctx

from separatrix.attention.checker.problem import Floats


@contextmanager
def bits(count: int) -> Iterator[None]:
    """Set the precision of midpoints in bits until the end of the block."""
    with ctx.workprec(count):
        yield


def matrix(x: Floats) -> arb_mat:
    """A matrix of floats as a matrix of balls of radius 0."""
    return arb_mat(x.shape[0], x.shape[1], x.ravel().tolist())


def of_entries(rows: int, columns: int, entries: Sequence[arb]) -> arb_mat:
    """A matrix of balls, row by row."""
    return arb_mat(rows, columns, list(entries))


def around(radius: arb) -> arb:
    """The ball around 0 whose radius is the upper end of a ball."""
    return arb(0, radius.abs_upper())


def power_of_two(exponent: int) -> arb:
    """2^exponent, exactly."""
    return arb((1, exponent))


def float_above(x: arb) -> float:
    """A float that is an upper bound of the ball; infinite if there is none."""
    if not x.is_finite():
        return math.inf
    nearest = float(x.upper())
    return nearest if arb(nearest) >= x else math.nextafter(nearest, math.inf)
