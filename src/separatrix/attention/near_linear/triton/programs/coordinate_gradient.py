"""The gradients of coordinates in Triton: dB/dx_l = sum_alpha alpha_l x^(alpha - e_l) G_alpha, G_alpha = <M_alpha, W>.

A program computes one coordinate of a block of tokens. It visits the pairs of alpha and beta = alpha - e_l that contain
the coordinate, from a list for each coordinate, so that no two programs write to the same address. The set of
multi-indices is closed downward: beta is a row of the same table of factors.
"""

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.attention.near_linear.triton.programs.monomials import LENGTHS, monomial_of, monomials_of


@triton.jit(do_not_specialize=LENGTHS)
def coordinate_gradient(
    x, factors, begins, pairs, M, weights, gradient, rank, n, d, degree, columns,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, TILED: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """Write the gradient (n,) of one coordinate of one head for a block of tokens.

    The pairs are (3, pairs): alpha, beta and alpha_l; those of coordinate l are from begins[l] to begins[l + 1]. If
    `GIVEN`, the G are `weights` (rank, n); otherwise they are computed from M (rank, columns) and `weights` (columns,
    n).
    """
    blocks = tl.cdiv(n, TOKENS)
    place, tokens = tl.program_id(0) // blocks, tl.program_id(0) % blocks * TOKENS + tl.arange(0, TOKENS)
    head, coordinate = place // d, place % d
    first, last, total = tl.load(begins + coordinate), tl.load(begins + coordinate + 1), tl.load(begins + d)
    column = tl.arange(0, COLUMNS)
    inside = tokens < n
    of_head = M + head.to(tl.int64) * rank * columns
    sums = tl.zeros((TOKENS,), x.dtype.element_ty)
    if not GIVEN:
        at = weights + head.to(tl.int64) * columns * n + column[None, :].to(tl.int64) * n + tokens[:, None]
        W = tl.load(at, mask=(column < columns)[None, :] & inside[:, None], other=0.0)
    if TILED:
        for start in range(first, last, ROWS):
            here = start + tl.arange(0, ROWS)
            alpha = tl.load(pairs + here, mask=here < last, other=0)
            beta = tl.load(pairs + total + here, mask=here < last, other=0)
            times = tl.load(pairs + 2 * total + here, mask=here < last, other=0).to(sums.dtype)
            found = monomials_of(x, factors, head, beta, tokens, rank, n, d, degree, ROWS, TOKENS) * times[:, None]
            at = of_head + alpha[:, None].to(tl.int64) * columns + column[None, :]
            of_alpha = tl.load(at, mask=(column < columns)[None, :], other=0.0)
            G = tl.dot(of_alpha, tl.trans(W), input_precision="ieee", out_dtype=sums.dtype)
            sums += tl.sum(found * G, 0)
    else:
        for here in range(first, last):
            alpha, beta = tl.load(pairs + here), tl.load(pairs + total + here)
            times = tl.load(pairs + 2 * total + here).to(sums.dtype)
            found = monomial_of(x, factors, head, beta, tokens, n, d, degree, TOKENS) * times
            if GIVEN:
                at = weights + (head.to(tl.int64) * rank + alpha) * n + tokens
                G = tl.load(at, mask=inside, other=0.0)
            else:
                of_alpha = tl.load(of_head + alpha.to(tl.int64) * columns + column, mask=column < columns, other=0.0)
                G = tl.sum(W * of_alpha[None, :], 1)
            sums += found * G
    tl.store(gradient + place.to(tl.int64) * n + tokens, sums, mask=inside)
