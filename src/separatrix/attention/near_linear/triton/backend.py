"""Near-linear attention by the Triton kernels, on GPUs.

- **Products** with monomials, in float32 and float64; the kernels never write the monomials to memory. Tokens that are
  added together are split into parts, at most 64: the tokens of a part are summed in one chain of multiply-adds in the
  dtype of the monomials, and the parts in float64, before they are added to the state. The number of roundings is at
  most that of `arithmetic.rounding.Summing` for a chunk and its lanes. The sum over a query's monomials is one chain of
  additions. The kernels use only sums, products and fused multiply-adds, which are assumed to be rounded correctly and
  to keep subnormal numbers (docs/derivations/assumptions.md names the source of each assumption).
- **The causal scan**, piece by piece, in float64. All programs compute the sums of the pieces at once (`add_state`),
  these are summed from piece to piece (`carry`), and then each piece is scanned from the states before it. So the
  number of roundings of a token in a state is at most the number of tokens of a piece plus the number of pieces:
  `Summing` counts that as chunks of a piece.
- **A few tokens of a stream.** The tokens of a call are summed before they are added to the state, as by the kernels in
  C++, and their roundings are counted in the same way; monomials are summed in blocks, and then the blocks are summed.
  Each call reads numbers from the GPU once: the bounds on the tokens, and the magnitudes of the values or of the
  outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.dispatch import gpu
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.cost import CHUNK_TOKENS, chunk_tokens
from separatrix.attention.near_linear.triton.launch import ENTRIES, MOST_SETS, WIDEST, Block, block_of, blocked, launch
from separatrix.attention.near_linear.triton.tables import Tables, tables

if TYPE_CHECKING:
    from separatrix.attention.near_linear.backend import StreamPlan
    from separatrix.attention.near_linear.sums import Expansion


NAME = "triton"
TOKENS_OF_A_LANE = CHUNK_TOKENS
PARTS, SHORTEST = 64, 256
"""Tokens are split into at most `PARTS` parts of at least `SHORTEST` tokens, so that a single head occupies a GPU."""


def takes(tensors: Sequence[Tensor], sets: int, columns: int) -> bool:
    return columns <= WIDEST and sets <= MOST_SETS and gpu.computes(*tensors)


def add_parts(of_set: Tables, x: Tensor, W: Tensor, length: int, parts: int) -> Tensor:
    """The states (H, parts, rank, c) of each `length` tokens of x (H, d, n) with W (H, c, n), in float64."""
    heads, columns, n = W.shape
    states = x.new_empty(heads, parts, of_set.rank, columns, dtype=torch.float64)
    block, constants = blocked("add_state", x.dtype, columns)
    sizes = (of_set.rank, n, of_set.dimension, of_set.degree, columns, parts, length)
    programs = heads * parts * -(-of_set.rank // block.rows)
    launch("add_state", programs, x.contiguous(), of_set.factors, W.contiguous(), states, *sizes, **constants)
    return states


def coordinate_gradient(of_set: Tables, x: Tensor, M: Tensor | None, weights: Tensor) -> Tensor:
    """The gradient (H, d, n) of coordinates x, from M (H, rank, c) and W (H, c, n), or from their product (H, rank, n).

    `weights` is W, or the product if M is None.
    """
    heads, d, n = x.shape
    gradient = x.new_empty(heads, d, n)
    columns = 1 if M is None else M.shape[2]
    block, constants = blocked("coordinate_gradient", x.dtype, columns)
    constants["TILED"] = block.tiled and M is not None
    given = (
        x.contiguous(),
        of_set.factors,
        of_set.begins,
        of_set.pairs,
        weights if M is None else M,
        weights.contiguous(),
    )
    sizes = (of_set.rank, n, d, of_set.degree, columns)
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


STRETCH_BYTES = 1 << 28
"""The number of bytes that the gradients of the monomials of one step of the causal scan may take."""


def piece_tokens(columns: int) -> int:
    """The number of tokens in a piece, for states with this number of columns; a moment needs one column more.

    >>> piece_tokens(17), piece_tokens(65)
    (32, 16)
    """
    return block_of("scan", torch.float64, padded(columns + 1)).tokens


def scan_tokens(heads: int, rank: int, columns: int, sets: int, is_backward: bool) -> int:
    """The number of tokens that one step of the causal scan processes, a multiple of `piece_tokens`.

    The gradients of their monomials take at most `STRETCH_BYTES`, or more if a single piece needs more.
    """
    piece = piece_tokens(columns)
    return max(1, STRETCH_BYTES // (8 * max(heads, 1) * rank * (sets + 1) * piece)) * piece


def scan_summing(call: Call, rank: int) -> Summing:
    """Keys before the first query are summed in chunks, and later keys in pieces."""
    chunk, piece = chunk_tokens(call.query.shape[0], rank, True), piece_tokens(call.values[0].shape[2] + 1)
    return Summing(max(chunk, piece), min(chunk, piece))


class _Stretch:
    """The coordinates (1 + sets, H, d', c), weights (sets, H, d_v + 1, c) and the states before each piece."""

    def __init__(self, expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> None:
        self.tables = tables(expansion.index_set, W[0].device)
        self.x, self.W = torch.stack(x), torch.stack(W)
        self.sets, self.heads, self.columns, self.n = self.W.shape
        self.piece = piece_tokens(self.columns)
        self.pieces = -(-self.n // self.piece)
        keys = self.x[len(x) - self.sets :].flatten(0, 1)
        self.before = add_parts(self.tables, keys, self.W.flatten(0, 1), self.piece, self.pieces)
        self.after = self._carry(self.before, Z, False)

    def _carry(self, sums: Tensor, given: list[Tensor], back: bool) -> list[Tensor]:
        start = torch.stack(given)
        after = torch.empty_like(start)
        size = self.tables.rank * self.columns
        programs = self.sets * self.heads * -(-size // ENTRIES)
        launch("carry", programs, sums, start, after, self.pieces, size, ENTRIES=ENTRIES, BACK=back, warps=4)
        return list(after)

    def scan(self, expansion: Expansion) -> Tensor:
        """The sums (H, c, d_v + 2) of the queries, the last column being the moments."""
        out = self.x.new_empty(self.heads, self.n, self.columns + 1)
        moments = expansion.moment_weights()
        given = (self.x, self.tables.factors, self.W, self.before, expansion.all_coefficients(), moments, out)
        self._launch("scan", self.heads, given)
        return out

    def gradients(
        self, expansion: Expansion, grad: Tensor, grad_Z: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The gradients of coordinates and weights, and of the states before these tokens."""
        later, of_weights = torch.empty_like(self.before), torch.empty_like(self.W)
        of_monomials = self.x.new_empty(self.sets + 1, self.heads, self.tables.rank, self.n)
        incoming = grad.mT.contiguous()
        states = (self.x, self.tables.factors, self.W, self.before, expansion.coefficients.contiguous())
        given = (*states, incoming, later, of_monomials, of_weights)
        self._launch("scan_back", self.sets * self.heads, given, WHOLE=True)
        before = self._carry(later, grad_Z, True)
        self._launch("scan_back", (self.sets + 1) * self.heads, given, WHOLE=False)
        by_coordinate = coordinate_gradient(self.tables, self.x.flatten(0, 1), None, of_monomials.flatten(0, 1))
        return by_coordinate.view_as(self.x), of_weights, before

    def _launch(self, kernel: str, places: int, given: tuple[Tensor, ...], **constants: bool) -> None:
        of_set, width = self.tables, padded(self.columns + 1)
        sizes = (self.heads, of_set.rank, self.n, of_set.dimension, of_set.degree, self.columns, self.pieces, self.sets)
        block = block_of(kernel, torch.float64, width)
        constexprs = {"TOKENS": self.piece, "COLUMNS": width, **constants}
        launch(kernel, places * self.pieces, *given, *sizes, **constexprs, warps=block.warps)


def scan(
    expansion: Expansion, query: Tensor, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    columns = W[0].shape[1] - expansion.weighted
    stretch = _Stretch(expansion, [query, *x], [w[:, :columns] for w in W], [z[..., :columns] for z in Z])
    sums = stretch.scan(expansion)
    if not expansion.squares:
        return sums[..., :-1], sums[..., -1:], stretch.after
    of_level = replace(expansion, coefficients=expansion.moment_weights())
    weighted = _Stretch(of_level, [query, *x], [w[:, columns:] for w in W], [z[..., columns:] for z in Z])
    moments = torch.cat([sums[..., -1:], weighted.scan(of_level)[..., :-1]], -1)
    after = [torch.cat(states, -1) for states in zip(stretch.after, weighted.after, strict=True)]
    return sums[..., :-1], moments, after


def scan_keys(expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> list[Tensor]:
    return _Stretch(expansion, x, W, Z).after


def scan_backward(
    expansion: Expansion,
    query: Tensor,
    x: list[Tensor],
    W: list[Tensor],
    Z: list[Tensor],
    grad: Tensor,
    grad_Z: list[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    by_coordinate, by_weight, before = _Stretch(expansion, [query, *x], W, Z).gradients(expansion, grad, grad_Z)
    return by_coordinate[0], list(by_coordinate[1:]), list(by_weight), before


class TritonStream:
    """Calls the kernels for the states of one plan."""

    ONE_BY_ONE = False

    def __init__(self, plan: StreamPlan) -> None:
        device = plan.coefficients.device
        self._factors = list(torch.tensor(plan.factors, dtype=torch.float64, device=device).split(1))
        self._tables, self._coefficients = tables(plan.index_set, device), plan.coefficients
        self._heads, self._columns, self._sets = plan.heads, plan.value_dim + 1, len(plan.factors) - 1
        self._most, self._norm = plan.most, plan.norm

    def append(
        self, states: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], checked: bool
    ) -> list[float] | None:
        sizes = [self._size(key) for key in keys] + [value.abs().amax().to(torch.float64) for value in values]
        sizes_read = numbers(torch.stack(sizes))
        beyond, largest = [not size <= self._most for size in sizes_read[: len(keys)]], sizes_read[len(keys) :]
        if (any(beyond) and not checked) or not all(map(math.isfinite, largest)):
            return None
        for state, key, value, factor in zip(states, keys, values, self._factors[1:], strict=True):
            given = (key.contiguous(), value.contiguous(), self._tables.factors, factor, state)
            self._launch("append_tokens", key.shape[-2], given)
        return [float(size) for size in largest]

    def attend(self, states: Sequence[Tensor], query: Tensor, checked: bool) -> tuple[Tensor, float] | None:
        length, blocks = query.shape[-2], -(-self._tables.rank // self._block("ask_states").rows)
        parts = self._coefficients.new_empty(self._heads, blocks, length, self._columns)
        given = (query.contiguous(), tuple(states), self._tables.factors, self._factors[0], self._coefficients, parts)
        self._launch("ask_states", length, given, SETS=self._sets)
        sums = parts.sum(1)
        out = sums[..., :-1] / sums[..., -1:]
        size, reached = numbers(torch.stack([self._size(query), out.abs().amax()]))
        if not size <= self._most and not checked:
            return None
        return out.to(query.dtype).reshape(*query.shape[:-1], self._columns - 1), reached

    def _size(self, tokens: Tensor) -> Tensor:
        """The largest entry or norm of tokens in float64, which a state compares with its bound."""
        wide = tokens.to(torch.float64)
        sizes = torch.linalg.vector_norm(wide, self._norm, dim=-1) if self._norm else wide.abs()
        return sizes.amax()

    def _block(self, kernel: str) -> Block:
        return block_of(kernel, torch.float64, padded(self._columns))

    def _launch(self, kernel: str, length: int, given: tuple[object, ...], **constants: int) -> None:
        block, of_set = self._block(kernel), self._tables
        sizes = (of_set.rank, length, of_set.dimension, of_set.degree, self._columns)
        constants = {"ROWS": block.rows, "COLUMNS": padded(self._columns), **constants}
        programs = self._heads * -(-of_set.rank // block.rows)
        launch(kernel, programs, *given, *sizes, **constants, warps=block.warps)


stream_kernels = TritonStream


def one_pass(expansion: Expansion, x: Tensor, m: int, values: Tensor) -> None:
    return None
