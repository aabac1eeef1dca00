r"""Products with the monomials of a chunk: B(x; M, W) = sum_n sum_alpha x_n^alpha <M_alpha, W_n> and its derivatives.

The polynomial method needs no more of the monomials Phi than this form: a state is dB/dM = Phi W, the sums of the
queries are dB/dW = M^T Phi, and the backward passes are dB/dx, besides.

`Direct` multiplies out all monomials. `Factored` leaves the last factor of each to the other operand. With l the
largest coordinate of alpha and beta = alpha less one there,

    x^alpha W = x^beta (x_l W),    sum_alpha x^alpha M_alpha = sum_l x_l sum_beta x^beta M_(beta + e_l),

so that only the betas are multiplied out, C(d + g - 1, g - 1) of C(d + g, g), and the products are as wide as there
are coordinates. A beta meets only coordinates from its largest on: coordinates go in groups of `_GROUP`, and a group
meets the betas that end in it or before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.cost import Expanded, direct
from separatrix.attention.monomials import Array, IndexSet, MonomialMemory, monomials_backward

_GROUP = 4
"""Coordinates of a group: with nine columns each, about what a product needs to be efficient."""


class Products(Protocol):
    """Memory for the products of up to `size` tokens. x is (H, d, n), W (H, c, n), M and a state (H, rank, c)."""

    def start(self) -> list[Tensor]:
        """A state of zeros, in float64, in a form of its own."""

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        """Add dB/dM."""

    def finish(self, state: list[Tensor]) -> Tensor:
        """The state (H, rank, c)."""

    def prepare(self, M: Tensor) -> list[Tensor]:
        """M in the form that the next two take, in the dtype of the monomials."""

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        """dB/dW (H, c, n)."""

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        """dB/dx (H, d, n) and dB/dW (H, c, n); dB/dM is added to a `state`."""


@dataclass(frozen=True, eq=False)
class Factoring:
    """`betas`, and for each group of coordinates [first, last) the rows of the betas it meets, None for all.

    `places` (rank - 1,): where each alpha but 0 is found when the (rows x coordinates) of all groups are laid end to
    end.
    """

    betas: IndexSet
    groups: tuple[tuple[int, int, Array | None], ...]
    places: Array

    def expanded(self) -> Expanded:
        """What it costs: the betas are written, and once more those that a group has a copy of."""
        copies = sum(0 if rows is None else len(rows) for _, _, rows in self.groups)
        met = [self.betas.rank if rows is None else len(rows) for _, _, rows in self.groups]
        pairs = sum(rows * (last - first) for rows, (first, last, _) in zip(met, self.groups, strict=True))
        return Expanded(len(self.places) + 1, self.betas.rank + copies, pairs)


@lru_cache(maxsize=64)
def factoring(index_set: IndexSet) -> Factoring:
    """The factoring of a set of degree 1 or more: its betas are all alphas below the highest level."""
    d, top = index_set.dimension, index_set.levels[-1][0]
    betas = IndexSet(index_set.alphas[:top], index_set.levels[:-1], index_set.blocks[:-1])
    coordinates = np.arange(1, d + 1)
    ends = (coordinates * (betas.alphas > 0)).max(1)
    groups: list[tuple[int, int, Array | None]] = []
    offsets, row_places = [], []
    offset = 0
    for last in range(d, 0, -_GROUP):
        first = max(0, last - _GROUP)
        rows = np.flatnonzero(ends <= last)
        place = np.full(len(ends), -1)
        place[rows] = np.arange(len(rows))
        groups.append((first, last, None if len(rows) == len(ends) else rows))
        offsets.append(offset)
        row_places.append(place)
        offset += len(rows) * (last - first)
    places = np.empty(index_set.rank - 1, dtype=np.int64)
    for p, block in enumerate(index_set.blocks, start=1):
        for coordinate, (start, stop), source in block:
            beta = index_set.levels[p - 1][0] + (np.arange(source) if isinstance(source, int) else source)
            which = (d - 1 - coordinate) // _GROUP
            first, last, _ = groups[which]
            alphas = slice(index_set.levels[p][0] + start - 1, index_set.levels[p][0] + stop - 1)
            places[alphas] = offsets[which] + row_places[which][beta] * (last - first) + coordinate - first
    return Factoring(betas, tuple(groups), places)


def expanded(index_set: IndexSet) -> Expanded:
    """What products with the monomials of a set cost."""
    return factoring(index_set).expanded() if index_set.degree > 1 else direct(index_set.rank)


def expanded_total_degree(d: int, degree: int) -> Expanded:
    """The same for all alphas with |alpha| <= degree, by counting.

    >>> expanded_total_degree(8, 4)
    Expanded(rank=495, rows=200, pairs=800)
    """
    rank = math.comb(d + degree, degree)
    if degree < 2:
        return direct(rank)
    groups = [(last, min(_GROUP, last)) for last in range(d, 0, -_GROUP)]
    rows = [math.comb(last + degree - 1, degree - 1) for last, _ in groups]
    return Expanded(rank, sum(rows), sum(met * size for met, (_, size) in zip(rows, groups, strict=True)))


def products(index_set: IndexSet, heads: int, size: int, columns: int, like: Tensor) -> Products:
    """The one of the two that writes fewer rows a token."""
    if expanded(index_set).is_factored(index_set.dimension, columns):
        return Factored(index_set, factoring(index_set), heads, size, columns, like)
    return Direct(index_set, heads, size, columns, like)


def _add(state: Tensor, left: Tensor, right: Tensor) -> None:
    """state += left @ right, the sum over tokens in the dtype of the factors and the rest in float64."""
    if left.dtype == state.dtype:
        torch.baddbmm(state, left, right, out=state)  # in place it would not be counted among the flops
    else:
        state += torch.bmm(left, right)


class Direct:
    """All monomials multiplied out."""

    def __init__(self, index_set: IndexSet, heads: int, size: int, columns: int, like: Tensor) -> None:
        self._index_set, self._like, self._shape = index_set, like, (heads, index_set.rank, columns)
        self._monomials = MonomialMemory(index_set, (heads,), size, like)

    def start(self) -> list[Tensor]:
        return [self._like.new_zeros(self._shape, dtype=torch.float64)]

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        _add(state[0], self._monomials.fill(x), W.mT)

    def finish(self, state: list[Tensor]) -> Tensor:
        return state[0]

    def prepare(self, M: Tensor) -> list[Tensor]:
        return [M.to(self._like.dtype).mT.contiguous()]

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        return torch.bmm(M[0], self._monomials.fill(x))

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        features = self._monomials.fill(x)
        if state is not None:
            _add(state[0], features, W.mT)
        return monomials_backward(x, self._index_set, features, torch.bmm(M[0].mT, W)), torch.bmm(M[0], features)


class Factored:
    """The last factor of every monomial left to the other operand."""

    def __init__(
        self, index_set: IndexSet, factored: Factoring, heads: int, size: int, columns: int, like: Tensor
    ) -> None:
        self._index_set, self._factored, self._like = index_set, factored, like
        self._heads, self._columns = heads, columns
        self._monomials = MonomialMemory(factored.betas, (heads,), size, like)
        self._groups = [
            (first, last, None if rows is None else torch.from_numpy(rows).to(like.device))
            for first, last, rows in factored.groups
        ]
        self._places = torch.from_numpy(factored.places).to(like.device)

    def _rows(self, rows: Tensor | None) -> int:
        return self._factored.betas.rank if rows is None else len(rows)

    def start(self) -> list[Tensor]:
        empty = self._like.new_zeros(self._heads, 1, self._columns, dtype=torch.float64)
        return [empty] + [
            empty.new_zeros(self._heads, self._rows(rows), (last - first) * self._columns)
            for first, last, rows in self._groups
        ]

    def _spread(self, x: Tensor, W: Tensor, first: int, last: int) -> Tensor:
        """x_l W for the coordinates of a group, (H, (last - first) c, n)."""
        return (x[:, first:last].unsqueeze(2) * W.unsqueeze(1)).flatten(1, 2)

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        self._add(state, x, W, self._monomials.fill(x))

    def _add(self, state: list[Tensor], x: Tensor, W: Tensor, features: Tensor) -> None:
        state[0] += W.sum(-1, dtype=torch.float64).unsqueeze(1)
        for into, (first, last, rows) in zip(state[1:], self._groups, strict=True):
            _add(into, _of(features, rows), self._spread(x, W, first, last).mT)

    def finish(self, state: list[Tensor]) -> Tensor:
        laid = [part.reshape(self._heads, -1, self._columns) for part in state[1:]]
        return torch.cat([state[0], torch.cat(laid, 1).index_select(1, self._places)], 1)

    def prepare(self, M: Tensor) -> list[Tensor]:
        M = M.to(self._like.dtype)
        sizes = [self._rows(rows) * (last - first) for first, last, rows in self._groups]
        laid = M.new_zeros(self._heads, sum(sizes), self._columns).index_copy_(1, self._places, M[:, 1:])
        parts = [
            part.reshape(self._heads, self._rows(rows), -1).mT.contiguous()
            for part, (_, _, rows) in zip(laid.split(sizes, 1), self._groups, strict=True)
        ]
        return [M[:, :1].mT, *parts]

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        return self._sums(x, M, self._monomials.fill(x))[0]

    def _sums(self, x: Tensor, M: list[Tensor], features: Tensor) -> tuple[Tensor, list[Tensor]]:
        """dB/dW, and for each group what x_l multiplies in it, (H, l, c, n)."""
        total, parts = M[0].expand(-1, -1, x.shape[2]).contiguous(), []
        for part, (first, last, rows) in zip(M[1:], self._groups, strict=True):
            met = torch.bmm(part, _of(features, rows)).unflatten(1, (last - first, self._columns))
            for coordinate in range(first, last):
                total.addcmul_(met[:, coordinate - first], x[:, coordinate : coordinate + 1])
            parts.append(met)
        return total, parts

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        features = self._monomials.fill(x)
        if state is not None:
            self._add(state, x, W, features)
        total, parts = self._sums(x, M, features)
        grad_features, grad_x = torch.zeros_like(features), torch.empty_like(x)
        for part, met, (first, last, rows) in zip(M[1:], parts, self._groups, strict=True):
            back = torch.bmm(part.mT, self._spread(x, W, first, last))
            if rows is None:
                grad_features += back
            else:
                grad_features.index_add_(1, rows, back)
            torch.sum(met.mul_(W.unsqueeze(1)), 2, out=grad_x[:, first:last])
        return grad_x + monomials_backward(x, self._factored.betas, features, grad_features), total


def _of(features: Tensor, rows: Tensor | None) -> Tensor:
    return features if rows is None else features.index_select(1, rows)


class _SumOfMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, W)
        met = products(index_set, x.shape[0], size, W.shape[1], x.new_empty(0))
        state = met.start()
        for start in range(0, x.shape[2], size):
            met.add(state, x[..., start : start + size], W[..., start : start + size])
        return met.finish(state)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, W = ctx.saved_tensors
        met = products(ctx.index_set, x.shape[0], ctx.size, W.shape[1], x.new_empty(0))
        prepared = met.prepare(grad)
        grad_x, grad_W = torch.empty_like(x), torch.empty_like(W)
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            grad_x[..., here], grad_W[..., here] = met.gradient(x[..., here], prepared, W[..., here], None)
        return grad_x, grad_W, None, None


class _AgainstMonomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, M: Tensor, index_set: IndexSet, size: int) -> Tensor:
        ctx.index_set, ctx.size = index_set, size
        ctx.save_for_backward(x, M)
        met = products(index_set, x.shape[0], size, M.shape[2], x.new_empty(0))
        prepared = met.prepare(M)
        pieces = range(0, x.shape[2], size)
        return torch.cat([met.sums(x[..., start : start + size], prepared) for start in pieces], -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, M = ctx.saved_tensors
        met = products(ctx.index_set, x.shape[0], ctx.size, M.shape[2], x.new_empty(0))
        prepared, state, grad_x = met.prepare(M), met.start(), torch.empty_like(x)
        for start in range(0, x.shape[2], ctx.size):
            here = slice(start, start + ctx.size)
            grad_x[..., here], _ = met.gradient(x[..., here], prepared, grad[..., here], state)
        return grad_x, met.finish(state), None, None


sum_of_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _SumOfMonomials.apply
"""sum_n x_n^alpha W_n (H, rank, c) for x (H, d, n) and W (H, c, n) in float64, `size` tokens at a time."""
against_monomials: Callable[[Tensor, Tensor, IndexSet, int], Tensor] = _AgainstMonomials.apply
"""sum_alpha x_n^alpha M_alpha (H, c, n) for x (H, d, n) and M (H, rank, c) in float64, `size` tokens at a time."""
