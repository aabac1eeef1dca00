"""The largest magnitude in each column of each factor of a call in Triton, as an exponent of two.

Exponents are integers, and their maximum does not depend on the order of comparisons: only here and in `check_range` do
several programs write to the same address.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import NOTHING, exponent_of

HUGE = tl.constexpr(1 << 16)
"""The exponent that stands for NaN and infinity, above that of every product of numbers."""


@triton.jit(do_not_specialize=("heads", "blocks"))
def largest(
    factors, masks, table, exponents, heads, blocks, mask_shared,
    MASKED: tl.constexpr, SETS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Raise `exponents` (factors, heads, COLUMNS), minus `NOTHING`, to those of one block of rows of one head.

    The factors are a tuple: queries, keys and values, (heads, rows, columns), whose rows and columns are in `table`.
    Heads of queries that share keys are one head here. A key and its value count if one of the `mask_shared` masks of
    their head makes them visible; masks are a tuple with one entry for each set.
    """
    place, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks % heads
    factor = tl.program_id(0) // blocks // heads
    rows, column = place * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    length, columns = tl.load(table + 2 * factor), tl.load(table + 2 * factor + 1)
    for m in tl.static_range(2 * SETS + 1):
        if factor == m:
            inside = rows < length
            if MASKED and m > 0:
                shown = tl.zeros((ROWS,), tl.int32)
                for member in range(mask_shared):
                    of_mask = (head * mask_shared + member).to(tl.int64) * length
                    shown |= tl.load(masks[(m - 1) % SETS] + of_mask + rows, mask=inside, other=0)
                inside = inside & (shown != 0)
            at = (head.to(tl.int64) * length + rows[:, None]) * columns + column[None, :]
            x = tl.load(factors[m] + at, mask=inside[:, None] & (column < columns)[None, :], other=0.0)
            wide: tl.constexpr = tl.float64 if x.dtype == tl.float64 else tl.float32
            exponent = tl.max(exponent_of(x.to(wide)), 0)
            exponent = tl.where(exponent > (1024 if wide == tl.float64 else 128), HUGE, exponent)
            into = exponents + (tl.program_id(0) // blocks).to(tl.int64) * COLUMNS + column
            tl.atomic_max(into, exponent - NOTHING)
