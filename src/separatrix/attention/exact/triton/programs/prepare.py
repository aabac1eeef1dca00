"""The integers that other kernels read from memory, written by a Triton kernel: nothing is copied from the host.

A copy from the host would be captured by a CUDA graph with the numbers of one call, and a growing key/value cache would
need one for every token.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=("zeros",))
def prepare(numbers, entries, zeros, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Write `COUNT` integers to the start of `numbers`, and `zeros` zeros after them.

    The entries are a tuple with 4 x + 3 for each number x: Triton recompiles a kernel for arguments that are 1 or
    multiples of 16, and these entries are neither.
    """
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(numbers + COUNT + place, 0, mask=place < zeros)
    if tl.program_id(0) == 0:
        for m in tl.static_range(COUNT):
            tl.store(numbers + m, (entries[m] >> 2).to(tl.int32))
