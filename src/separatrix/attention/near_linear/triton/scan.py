"""Causal near-linear attention over a sequence by the Triton kernels, piece by piece, in float64.

All programs compute the sums of the pieces at once (`add_state`), these are summed from piece to piece (`carry`), and
then each piece is scanned from the states before it. So the number of roundings of a token in a state is at most the
number of tokens of a piece plus the number of pieces: `Summing` counts that as chunks of a piece.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.dispatch.gpu import padded
from separatrix.attention.near_linear.cost import chunk_tokens
from separatrix.attention.near_linear.expansion import Expansion
from separatrix.attention.near_linear.triton.launch import ENTRIES, block_of, launch
from separatrix.attention.near_linear.triton.products import add_parts, coordinate_gradient
from separatrix.attention.near_linear.triton.tables import tables

STRETCH_BYTES = 1 << 28
"""The number of bytes that the gradients of the monomials of a stretch may take."""


def piece_tokens(columns: int) -> int:
    """The number of tokens in a piece, for states with this number of columns; a moment needs one column more.

    >>> piece_tokens(17), piece_tokens(65)
    (32, 16)
    """
    return block_of("scan", torch.float64, padded(columns + 1)).tokens


def scan_tokens(heads: int, rank: int, columns: int, sets: int, is_backward: bool) -> int:
    """The number of tokens in a stretch, a multiple of a piece: the gradients of their monomials take
    `STRETCH_BYTES`."""
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
        """The gradients of coordinates and weights, and of the states before the stretch."""
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
        found, width = self.tables, padded(self.columns + 1)
        sizes = (self.heads, found.rank, self.n, found.dimension, found.degree, self.columns, self.pieces, self.sets)
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
