"""The inputs of a backward pass for each query in Triton, with incoming gradients scaled to about 1 by powers of two.

It is what `exact.torch.IncomingRows` computes in plain PyTorch: a query's incoming gradient is divided by a power of
two of its own, and the gradients of keys and values are multiplied by the largest of these powers in their head.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.exact.triton.programs.tiles import NOTHING, exponent_of, times_power


@triton.jit(do_not_specialize=("count", "up"))
def incoming_rows(
    out_gradient, lse_gradient, out, lse, near, shift, delta, own_exponents, top_exponents, count, up,
    d_v: tl.constexpr, D_V: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the rows of one block of the `count` queries that share a head of keys.

    They are the incoming gradient near 1, the base-2 log-sum-exp minus `up`, delta, and the exponent of the power of
    two; `top_exponents` is raised to the largest exponent of the head, minus `NOTHING`. A query with nothing to attend
    has an incoming gradient of 0, whose exponent is `NOTHING`.
    """
    blocks = tl.cdiv(count, ROWS)
    head, rows = tl.program_id(0) // blocks, tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    column, inside = tl.arange(0, D_V), rows < count
    at = head.to(tl.int64) * count + rows
    entries = at[:, None] * d_v + column[None, :]
    held = inside[:, None] & (column < d_v)[None, :]
    wide = lse.dtype.element_ty
    log = tl.load(lse + at, mask=inside, other=float("-inf"))
    attends = log != float("-inf")
    g = tl.load(out_gradient + entries, mask=held & attends[:, None], other=0.0).to(wide)
    of_lse = tl.load(lse_gradient + at, mask=attends, other=0.0).to(wide)
    result = tl.load(out + entries, mask=held & attends[:, None], other=0.0).to(wide)
    exponent = tl.maximum(tl.max(exponent_of(g), 1), exponent_of(of_lse))
    back = tl.where(exponent == NOTHING, NOTHING, -exponent)
    g = times_power(g, back[:, None])
    tl.store(near + entries, g, mask=held)
    tl.store(delta + at, tl.sum(g * result, 1) - times_power(of_lse, back), mask=inside)
    tl.store(shift + at, tl.where(attends, log, 0.0) * 1.4426950408889634 - up, mask=inside)
    tl.store(own_exponents + at, exponent, mask=inside)
    tl.atomic_max(top_exponents + head, tl.max(exponent, 0) - NOTHING)
