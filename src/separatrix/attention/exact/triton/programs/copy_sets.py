"""Contiguous copies of several tensors in Triton: one launch for all sets and masks of a call."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=("blocks",))
def copy_sets(
    sources, copies, heads, lengths, columns, head_strides, row_strides, column_strides, blocks,
    COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copy one block of entries of one of `COUNT` tensors (heads, rows, columns), in the type of its copy.

    All arguments but `blocks`, the number of blocks of the largest tensor, are tuples with one entry for each tensor;
    `lengths` and `head_strides`, which change with the length of a cache, are 4 x + 3 for a number x (see `prepare`).
    """
    at = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    for m in tl.static_range(COUNT):
        if tl.program_id(0) // blocks == m:
            length = lengths[m] >> 2
            row = at // columns[m]
            head = row // length
            inside = head < heads[m]
            source = head * (head_strides[m] >> 2) + row % length * row_strides[m] + at % columns[m] * column_strides[m]
            x = tl.load(sources[m] + source, mask=inside, other=0)
            tl.store(copies[m] + at, x.to(copies[m].dtype.element_ty), mask=inside)
