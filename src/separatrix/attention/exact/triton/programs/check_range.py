"""Bounds on the products of factors in Triton, from the exponents that `largest` finds: one program for each head.

A magnitude with the exponent e is below 2^e, and at least 2^(e - 1). The bounds are whole logarithms to base 2:

    0   the largest product of those magnitudes above 1, of queries and keys       (from above)
    1   the same of values                                                         (from above)
    2   the largest product of values over the columns, of the least head          (from below)
    3   the largest product of values                                              (from above)
    4   the largest product over the columns of all factors but one of queries and keys, or of values, of the least
        head and factor                                                            (from below)
    5   the largest product of query and prefix keys                               (from above)
    6   the largest inner key                                                      (from above)
    7   the largest product of those prefix values above 1                         (from above)

Products that are zero in every column are ignored in 2 and 4.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton import configurations
from separatrix.attention.exact.triton.programs.tiles import NOTHING

ORIGIN = tl.constexpr(configurations.ORIGIN)
"""An upper bound is stored as this number plus the bound, and a lower bound as this number minus the bound, so that the
maximum over heads is the weakest bound.
"""
NONE = tl.constexpr(1 << 20)
"""The value of a lower bound if there is nothing to bound."""
LIMITS = ("score_most", "value_most", "value_least", "factor_most", "factor_least")
"""The limits within which a head is computed: of bound 0, of bound 1, of bound 2, of bounds 0 and 1 together, and of
bound 4.
"""


@triton.jit
def counted(exponents):
    """The largest of exponents over the columns, or `NONE` if all of these belong to zeros."""
    found = tl.max(exponents, 0)
    return tl.where(found < NOTHING // 2, NONE, found)


@triton.jit
def products_of(of_head, of_factor, FIRST: tl.constexpr, COUNT: tl.constexpr, COLUMNS: tl.constexpr):
    """Bounds on the products over some factors, from `FIRST` on, in each column of a head.

    They are upper bounds on the product of magnitudes above 1 and on the product of all; a lower bound on the product
    of all; and, over the columns, a lower bound on the smallest product of all factors but one.
    """
    above = tl.zeros((COLUMNS,), tl.int32)
    high = tl.zeros((COLUMNS,), tl.int32)
    for m in tl.static_range(FIRST, FIRST + COUNT):
        exponent = tl.load(of_head + m * of_factor) + NOTHING
        above += tl.maximum(exponent, 0)
        high += exponent
    least = tl.max(high * 0, 0) + NONE
    for m in tl.static_range(FIRST, FIRST + COUNT):
        exponent = tl.load(of_head + m * of_factor) + NOTHING
        least = tl.minimum(least, counted(high - exponent - (COUNT - 1)))
    return above, high, high - COUNT, least


@triton.jit(do_not_specialize=("heads", "inner", *LIMITS))
def check_range(
    exponents, bounds, scales, multipliers, heads, inner, score_most, value_most, value_least, factor_most,
    factor_least,
    WRITES: tl.constexpr, SETS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Raise `bounds` to those of one head and, if `WRITES`, write the factor of its queries.

    This factor is the first of `scales`, or NaN if a bound of the head is beyond its limit.
    """
    head, column = tl.program_id(0), tl.arange(0, COLUMNS)
    of_head, of_factor = exponents + head.to(tl.int64) * COLUMNS + column, tl.cast(heads, tl.int64) * COLUMNS
    above, rows, _, least = products_of(of_head, of_factor, 0, SETS + 1, COLUMNS)
    above_values, high, low, least_values_but_one = products_of(of_head, of_factor, SETS + 1, SETS, COLUMNS)
    inner_keys = tl.load(of_head + (1 + inner) * of_factor) + NOTHING
    inner_values = tl.load(of_head + (1 + SETS + inner) * of_factor) + NOTHING
    prefix_values = above_values - tl.maximum(inner_values, 0)
    rows -= inner_keys
    least = tl.minimum(least, least_values_but_one)
    score, value, product = tl.max(above, 0), tl.max(above_values, 0), counted(low)
    tl.atomic_max(bounds, score + ORIGIN)
    tl.atomic_max(bounds + 1, value + ORIGIN)
    tl.atomic_max(bounds + 2, -product + ORIGIN)
    tl.atomic_max(bounds + 3, tl.max(high, 0) + ORIGIN)
    tl.atomic_max(bounds + 4, -least + ORIGIN)
    tl.atomic_max(bounds + 5, tl.max(rows, 0) + ORIGIN)
    tl.atomic_max(bounds + 6, tl.max(inner_keys, 0) + ORIGIN)
    tl.atomic_max(bounds + 7, tl.max(prefix_values, 0) + ORIGIN)
    if WRITES:
        fits = (score <= score_most) & (value <= value_most) & (product >= value_least)
        fits = fits & (tl.maximum(score, value) <= factor_most) & (least >= factor_least)
        tl.store(multipliers + head, tl.where(fits, tl.load(scales), float("nan")))
