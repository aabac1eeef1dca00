"""States in Triton: sum_n x_n^alpha W_n, for a block of monomials over the tokens of one part of a sequence.

The tokens of a part are summed in their own dtype, one after the other, and the sum is written in float64. Each sum
belongs to one program, so that results are bitwise reproducible. If `TILED`, tokens are summed with tl.dot in tiles,
which in float32 on NVIDIA's GPUs is a chain of fused multiply-adds; otherwise one by one, by multiply-adds on any GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS, monomials_of


@triton.jit(do_not_specialize=LENGTHS)
def add_state(
    x, factors, weights, states, rank, n, d, degree, columns, parts, length,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, TILED: tl.constexpr,
):  # fmt: skip
    """Write the products of monomials (rank, length) and weights (columns, length) of one part of one head.

    The states are (heads, parts, rank, columns), and a part has `length` tokens of n.
    """
    blocks = tl.cdiv(rank, ROWS)
    part, rows = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    head, first = part // parts, part % parts * length
    last = tl.minimum(first + length, n)
    column = tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), x.dtype.element_ty)
    of_head = weights + head.to(tl.int64) * columns * n
    if TILED:
        for start in range(first, last, TOKENS):
            tokens = start + tl.arange(0, TOKENS)
            found = monomials_of(x, factors, head, rows, tokens, rank, n, d, degree, ROWS, TOKENS)
            at = of_head + column[None, :].to(tl.int64) * n + tokens[:, None]
            W = tl.load(at, mask=(column < columns)[None, :] & (tokens < last)[:, None], other=0.0)
            sums = tl.dot(found, W, sums, input_precision="ieee", out_dtype=sums.dtype)
    else:
        for token in range(first, last):
            found = monomials_of(x, factors, head, rows, token + tl.arange(0, 1), rank, n, d, degree, ROWS, 1)
            W = tl.load(of_head + column.to(tl.int64) * n + token, mask=column < columns, other=0.0)
            sums += found * W[None, :]
    at = states + (part.to(tl.int64) * rank + rows)[:, None] * columns + column[None, :]
    tl.store(at, sums.to(tl.float64), mask=(rows < rank)[:, None] & (column < columns)[None, :])
