"""Products with monomials by the Triton kernels, which never write the monomials to memory, in float32 and float64.

Tokens that are added together are split into parts, at most 64: the tokens of a part are summed in one chain of
multiply-adds in the dtype of the monomials, and the parts in float64, before they are added to the state. The number of
roundings is at most that of `arithmetic.rounding.Summing` for a chunk and its lanes. The sum over a query's monomials
is one chain of additions. The kernels use only sums, products and fused multiply-adds, which are assumed to be rounded
correctly and to keep subnormal numbers (docs/derivations/assumptions.md names the source of each assumption).
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.triton.launch import blocked, launch
from separatrix.attention.near_linear.triton.tables import Tables, tables

PARTS, SHORTEST = 64, 256
"""The largest number of parts into which tokens are split, so that a single head occupies a GPU; and the smallest
length of a part."""


def add_parts(found: Tables, x: Tensor, W: Tensor, length: int, parts: int) -> Tensor:
    """The states (H, parts, rank, c) of each `length` tokens of x (H, d, n) with W (H, c, n), in float64."""
    heads, columns, n = W.shape
    states = x.new_empty(heads, parts, found.rank, columns, dtype=torch.float64)
    block, constants = blocked("add_state", x.dtype, columns)
    sizes = (found.rank, n, found.dimension, found.degree, columns, parts, length)
    programs = heads * parts * -(-found.rank // block.rows)
    launch("add_state", programs, x.contiguous(), found.factors, W.contiguous(), states, *sizes, **constants)
    return states


def coordinate_gradient(found: Tables, x: Tensor, M: Tensor | None, weights: Tensor) -> Tensor:
    """The gradient (H, d, n) of coordinates x, from M (H, rank, c) and W (H, c, n), or from their product (H, rank, n).

    Args:
        found: The tables of the index set.
        x: The coordinates.
        M: M, or None if the product is given.
        weights: W, or the product of M and W.
    """
    heads, d, n = x.shape
    gradient = x.new_empty(heads, d, n)
    columns = 1 if M is None else M.shape[2]
    block, constants = blocked("coordinate_gradient", x.dtype, columns)
    constants["TILED"] = block.tiled and M is not None
    given = (
        x.contiguous(),
        found.factors,
        found.begins,
        found.pairs,
        weights if M is None else M,
        weights.contiguous(),
    )
    sizes = (found.rank, n, d, found.degree, columns)
    programs = heads * d * -(-n // block.tokens)
    launch("coordinate_gradient", programs, *given, gradient, *sizes, GIVEN=M is None, **constants)
    return gradient


def add(index_set: IndexSet, state: Tensor, x: Tensor, W: Tensor) -> None:
    n = x.shape[2]
    if n:
        parts = min(PARTS, -(-n // SHORTEST))
        states = add_parts(tables(index_set, x.device), x, W, -(-n // parts), parts)
        state += states.sum(1) if parts > 1 else states[:, 0]


def sums(index_set: IndexSet, x: Tensor, M: Tensor) -> Tensor:
    heads, rank, columns = M.shape
    of_set = tables(index_set, x.device)
    out = x.new_empty(heads, columns, x.shape[2])
    block, constants = blocked("against_state", x.dtype, columns)
    sizes = (rank, x.shape[2], of_set.dimension, of_set.degree, columns)
    programs = heads * -(-x.shape[2] // block.tokens)
    launch("against_state", programs, x.contiguous(), of_set.factors, M.contiguous(), out, *sizes, **constants)
    return out


def gradient(index_set: IndexSet, x: Tensor, M: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    M = M.contiguous()
    return coordinate_gradient(tables(index_set, x.device), x, M, W), sums(index_set, x, M)
