"""Exclusive prefix sums over the pieces of a causal stretch in Triton.

The pieces are added in order from the first to the last, or from the last to the first if `BACK`, in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS


@triton.jit(do_not_specialize=LENGTHS)
def carry(sums, given, after, pieces, size, ENTRIES: tl.constexpr, BACK: tl.constexpr):
    """Replace sums (heads, pieces, size) by their exclusive prefix sums, starting from `given` (heads, size).

    The total, with `given`, is written to `after` (heads, size).
    """
    blocks = tl.cdiv(size, ENTRIES)
    head, entries = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ENTRIES + tl.arange(0, ENTRIES)
    inside = entries < size
    so_far = tl.load(given + head.to(tl.int64) * size + entries, mask=inside, other=0.0)
    for step in range(pieces):
        piece = pieces - 1 - step if BACK else step
        at = sums + (head.to(tl.int64) * pieces + piece) * size + entries
        own = tl.load(at, mask=inside, other=0.0)
        tl.store(at, so_far, mask=inside)
        so_far += own
    tl.store(after + head.to(tl.int64) * size + entries, so_far, mask=inside)
