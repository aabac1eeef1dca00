"""A kernel on one of several packed sequences in Triton, as if the sequence were alone.

The tensors of a call have the rows of one sequence after those of another, and within a sequence are what the kernel
reads and writes when it is launched for that sequence: (heads, rows, columns). So the pointers are moved to the
sequence, its lengths take the place of whole numbers among the arguments, and the kernel is called: positions begin at
0, no program visits a token of another sequence, and results have the same bits as in a loop over the sequences.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import INTERPRETED

SHARED = tl.constexpr(-1)
"""The column of an argument that all sequences have in common."""


@triton.jit
def of_row(row, argument):
    """An argument of a kernel for the sequence whose numbers begin at `row`: the value, its step and its column.

    If an argument has a step, its value is a pointer, which is moved by the number in this column times the step.
    Otherwise the argument is the number itself.
    """
    if argument[2] == SHARED:
        return argument[0]
    elif argument[1] is None:
        return tl.load(row + argument[2])
    else:
        return argument[0] + tl.load(row + argument[2]).to(tl.int64) * argument[1]


@triton.jit(do_not_specialize=("width", "heads"))
def of_sequence(
    sequences, width, heads, tuples, arguments, flags,
    KERNEL: tl.constexpr, LENGTH: tl.constexpr, PER_ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Run the program of `KERNEL` whose index is the first coordinate of the grid, on the sequence whose index is the
    second.

    A sequence has `heads` programs for each block of rows; its number `LENGTH` times `PER_ROW` is the number of rows.
    """
    row = sequences + tl.program_id(1).to(tl.int64) * width
    if INTERPRETED:  # # the interpreter does not unwrap the constants of kernels that a kernel calls
        flags = [flag.value for flag in flags]
    if tl.program_id(0) < heads * tl.cdiv(tl.load(row + LENGTH) * PER_ROW, BLOCK):
        KERNEL(
            *[[of_row(row, argument) for argument in several] for several in tuples],
            *[of_row(row, argument) for argument in arguments],
            *flags,
        )
