r"""Products with the monomials of a chunk: B(x; M, W) = sum_n sum_alpha x_n^alpha <M_alpha, W_n> and its derivatives.

The polynomial method needs no more of the monomials Phi than this form: a state is dB/dM = Phi W, the sums of the
queries are dB/dW = M^T Phi, and the backward passes need dB/dx too.

The kernels in C++ compute them where they can (`native_products`), and those in Triton on GPUs (`gpu`). In PyTorch
`Direct` multiplies out all monomials. `Factored` leaves the last factor of each to the other operand. With l the
largest coordinate of alpha and beta = alpha less one there,

    x^alpha W = x^beta (x_l W),    sum_alpha x^alpha M_alpha = sum_l x_l sum_beta x^beta M_(beta + e_l),

so that only the betas are multiplied out, C(d + g - 1, g - 1) of C(d + g, g), and the products are as wide as there
are coordinates. A beta meets only coordinates from its largest on: coordinates go in groups of `GROUP`, and a group
meets the betas that end in it or before, which come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.dispatch.second_derivatives import only_first_derivatives
from separatrix.attention.near_linear.approximation.monomials import (
    Array,
    IndexSet,
    MonomialMemory,
    Steps,
    make_steps,
    monomials_backward,
)
from separatrix.attention.near_linear.native import NativeProducts
from separatrix.attention.near_linear.product_cost import GROUP, Expanded, direct
from separatrix.attention.near_linear.triton import products as gpu_products
from separatrix.native_tensors import kernels_for


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
    """How the betas are made, and for each group of coordinates [first, last) how many it meets, the first so many.

    `places` (rank - 1,): where each alpha but 0 is found when the (betas met x coordinates) of all groups are laid end
    to end.
    """

    betas: Steps
    groups: tuple[tuple[int, int, int], ...]
    places: Array

    def expanded(self) -> Expanded:
        """The cost of products with these monomials."""
        pairs = sum(met * (last - first) for first, last, met in self.groups)
        return Expanded(len(self.places) + 1, self.betas.rank, pairs)


@lru_cache(maxsize=64)
def factoring(index_set: IndexSet) -> Factoring:
    """The factoring of a set of degree 1 or more: its betas are all alphas below the highest level.

    They are sorted by the group that their largest coordinate is in, so that those a group meets are the first.
    """
    d, top = index_set.dimension, index_set.levels[-1][0]
    group = (d - 1 - index_set.last) // GROUP  # counted from the last coordinate; alpha = 0 has one more than all
    order = np.argsort(-group[:top], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(top)
    last = index_set.last[order]
    betas = make_steps(index_set.alphas[order].sum(1), last, place[index_set.parents[order]])
    ends = [(max(0, stop - GROUP), stop) for stop in range(d, 0, -GROUP)]
    groups = tuple((first, stop, int((last < stop).sum())) for first, stop in ends)
    offsets = np.cumsum([0, *(met * (stop - first) for first, stop, met in groups)])
    g, coordinate = group[1:], index_set.last[1:]
    firsts, stops, _ = np.array(groups).T
    places = offsets[g] + place[index_set.parents[1:]] * (stops - firsts)[g] + coordinate - firsts[g]
    return Factoring(betas, groups, places)


def expanded(index_set: IndexSet) -> Expanded:
    """What products with the monomials of a set cost."""
    has_factors = index_set.degree > 1 and index_set.dimension > 0
    return factoring(index_set).expanded() if has_factors else direct(index_set.rank)


def products(index_set: IndexSet, heads: int, size: int, columns: int, like: Tensor) -> Products:
    """Products by the kernels in Triton or in C++, where they compute with tensors like this one, else by PyTorch."""
    if gpu_products.takes(like, columns):
        return gpu_products.GpuProducts(index_set, heads, columns, like)
    library = kernels_for(like)
    if library is None:
        return in_pytorch(index_set, heads, size, columns, like)
    return NativeProducts(library, index_set, heads, columns, like)


def in_pytorch(index_set: IndexSet, heads: int, size: int, columns: int, like: Tensor) -> Products:
    """`Factored` or `Direct`, whichever writes fewer rows for a token."""
    if expanded(index_set).is_factored(index_set.dimension, columns):
        return Factored(factoring(index_set), heads, size, columns, like)
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
        self._monomials = MonomialMemory(index_set.steps, (heads,), size, like)

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
        return monomials_backward(x, self._index_set.steps, features, torch.bmm(M[0].mT, W)), torch.bmm(M[0], features)


class Factored:
    """The last factor of every monomial left to the other operand."""

    def __init__(self, factored: Factoring, heads: int, size: int, columns: int, like: Tensor) -> None:
        self._betas, self._groups, self._like = factored.betas, factored.groups, like
        self._heads, self._columns = heads, columns
        self._monomials = MonomialMemory(factored.betas, (heads,), size, like)
        self._places = torch.from_numpy(factored.places).to(like.device)
        most = heads * self._groups[0][1] * columns * size
        self._spreads, self._summed = like.new_empty(most), like.new_empty(most)

    def start(self) -> list[Tensor]:
        empty = self._like.new_zeros(self._heads, 1, self._columns, dtype=torch.float64)
        return [empty] + [
            empty.new_zeros(self._heads, met, (last - first) * self._columns) for first, last, met in self._groups
        ]

    def _room(self, memory: Tensor, first: int, last: int, n: int) -> Tensor:
        """A group's part of a memory that is used again for every chunk, (H, (last - first) c, n)."""
        one = self._heads * self._columns * n
        return memory[first * one : last * one].view(self._heads, (last - first) * self._columns, n)

    def _spread(self, x: Tensor, W: Tensor, first: int, last: int) -> Tensor:
        """x_l W for the coordinates of a group, (H, (last - first) c, n)."""
        into = self._room(self._spreads, first, last, x.shape[2])
        torch.mul(x[:, first:last].unsqueeze(2), W.unsqueeze(1), out=into.unflatten(1, (last - first, -1)))
        return into

    def add(self, state: list[Tensor], x: Tensor, W: Tensor) -> None:
        self._add(state, x, W, self._monomials.fill(x))

    def _add(self, state: list[Tensor], x: Tensor, W: Tensor, features: Tensor) -> None:
        state[0] += W.sum(-1, dtype=torch.float64).unsqueeze(1)
        for into, (first, last, met) in zip(state[1:], self._groups, strict=True):
            _add(into, features[:, :met], self._spread(x, W, first, last).mT)

    def finish(self, state: list[Tensor]) -> Tensor:
        laid = [part.reshape(self._heads, -1, self._columns) for part in state[1:]]
        return torch.cat([state[0], torch.cat(laid, 1).index_select(1, self._places)], 1)

    def prepare(self, M: Tensor) -> list[Tensor]:
        M = M.to(self._like.dtype)
        sizes = [met * (last - first) for first, last, met in self._groups]
        laid = M.new_zeros(self._heads, sum(sizes), self._columns).index_copy_(1, self._places, M[:, 1:])
        parts = [
            part.reshape(self._heads, met, -1).mT.contiguous()
            for part, (_, _, met) in zip(laid.split(sizes, 1), self._groups, strict=True)
        ]
        return [M[:, :1].mT, *parts]

    def sums(self, x: Tensor, M: list[Tensor]) -> Tensor:
        return self._sums(x, M, self._monomials.fill(x))[0]

    def _sums(self, x: Tensor, M: list[Tensor], features: Tensor) -> tuple[Tensor, list[Tensor]]:
        """dB/dW, and for each group what x_l multiplies in it, (H, l, c, n)."""
        total, parts = M[0].expand(-1, -1, x.shape[2]).contiguous(), []
        for part, (first, last, met) in zip(M[1:], self._groups, strict=True):
            into = self._room(self._summed, first, last, x.shape[2])
            summed = torch.bmm(part, features[:, :met], out=into).unflatten(1, (last - first, -1))
            for coordinate in range(first, last):
                total.addcmul_(summed[:, coordinate - first], x[:, coordinate : coordinate + 1])
            parts.append(summed)
        return total, parts

    def gradient(self, x: Tensor, M: list[Tensor], W: Tensor, state: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        features = self._monomials.fill(x)
        if state is not None:
            self._add(state, x, W, features)
        total, parts = self._sums(x, M, features)
        grad_features, grad_x = torch.zeros_like(features), torch.empty_like(x)
        for part, summed, (first, last, met) in zip(M[1:], parts, self._groups, strict=True):
            grad_features[:, :met] += torch.bmm(part.mT, self._spread(x, W, first, last))
            torch.sum(summed.mul_(W.unsqueeze(1)), 2, out=grad_x[:, first:last])
        return grad_x + monomials_backward(x, self._betas, features, grad_features), total


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
    @only_first_derivatives
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
    @only_first_derivatives
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
