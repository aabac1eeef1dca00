"""Sets of multi-indices, and the monomials x^alpha they stand for, built level by level from their parents.

The polynomial method writes P(<q, k_1, ..., k_{k-1}>) as a sum over multi-indices alpha of q^alpha k_1^alpha ...
(Alman and Song, "How to Capture Higher-order Correlations?", Lemma E.1). Every factor carries the *same* alpha, so
the rank is the number of alphas over the d coordinates, C(d + g, g) for total degree g, where the lemma counts the
monomials of all k d variables, C(k (d + g), k g).

A set is closed downward: with alpha it has every smaller multi-index. Level p has the alphas with |alpha| = p, sorted
by their largest coordinate; alpha's parent is alpha less one at that coordinate. In a total-degree set the children by
coordinate l of a level are then a copy of the level's beginning times x_l: no gathers, one product a monomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IndexSet:
    """`alphas` (rank, d), level after level; `levels[p]` is the half-open range of rows with |alpha| = p.

    `blocks[p - 1]` makes level p: for each coordinate, (coordinate, rows of level p, parents in level p - 1), the
    parents a prefix length where they are one and an index array where not.
    """

    alphas: Array
    levels: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[tuple[int, tuple[int, int], int | Array], ...], ...]

    @property
    def rank(self) -> int:
        return len(self.alphas)

    @property
    def degree(self) -> int:
        return len(self.levels) - 1

    @property
    def dimension(self) -> int:
        return int(self.alphas.shape[1])

    def is_total_degree(self) -> bool:
        return self.rank == math.comb(self.dimension + self.degree, self.degree)

    def multinomials(self) -> npt.NDArray[np.float64]:
        """|alpha|! / alpha!, the coefficient of x^alpha in (x_1 + ... + x_d)^|alpha|."""
        factorial = np.array([float(math.factorial(p)) for p in range(self.degree + 1)])
        return factorial[self.alphas.sum(1)] / factorial[self.alphas].prod(1)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def total_degree(d: int, degree: int) -> IndexSet:
    """All alphas over d coordinates with |alpha| <= degree.

    >>> total_degree(2, 2).alphas.tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    >>> total_degree(8, 4).rank, math.comb(3 * (8 + 4), 3 * 4)  # the rank, and the count of the paper's Lemma E.1
    (495, 1251677700)
    """
    level = np.zeros((1, d), dtype=np.int64)
    rows, levels, blocks, start = [level], [(0, 1)], [], 1
    ends = [1] * d
    for _ in range(degree):
        made, block, new_ends, first = [], [], [], 0
        for coordinate in range(d):
            count = ends[coordinate]
            child = level[:count].copy()
            child[:, coordinate] += 1
            made.append(child)
            block.append((coordinate, (first, first + count), count))
            first += count
            new_ends.append(first)
        level, ends = np.concatenate(made), new_ends
        rows.append(level)
        levels.append((start, start + first))
        blocks.append(tuple(block))
        start += first
    return IndexSet(np.concatenate(rows), tuple(levels), tuple(blocks))


def downward_closed(alphas: npt.ArrayLike) -> IndexSet:
    """The index set of given alphas (rank, d), which must be closed downward.

    >>> downward_closed([(0, 0), (1, 0), (2, 0), (0, 1)]).levels
    ((0, 1), (1, 3), (3, 4))
    """
    rows = np.asarray(alphas, dtype=np.int64)
    d = rows.shape[1]
    degrees, last = rows.sum(1), np.where(rows > 0, np.arange(d), -1).max(1)
    order = np.lexsort((*rows.T[::-1], last, degrees))
    rows, degrees, last = rows[order], degrees[order], last[order]
    parents = rows.copy()
    parents[np.arange(len(rows)), last] -= last >= 0
    places = {row.tobytes(): i for i, row in enumerate(rows)}
    above = np.array([places[parent.tobytes()] for parent in parents])
    levels: list[tuple[int, int]] = []
    blocks = []
    for p in range(int(degrees[-1]) + 1):
        start, stop = (int(x) for x in np.searchsorted(degrees, [p, p + 1]))
        block: list[tuple[int, tuple[int, int], int | Array]] = []
        for coordinate in np.unique(last[start:stop]).tolist() if p else ():
            first, end = (int(x) for x in np.searchsorted(last[start:stop], [coordinate, coordinate + 1]))
            block.append((coordinate, (first, end), above[start + first : start + end] - levels[-1][0]))
        if p:
            blocks.append(tuple(block))
        levels.append((start, stop))
    return IndexSet(rows, tuple(levels), tuple(blocks))


_Step = tuple[int, Tensor, Tensor | None, Tensor]
"""A product: the coordinate, the parents' level or its beginning, which rows of it if not all, and the result."""


class MonomialMemory:
    """Memory for the monomials (..., rank, n) of up to `size` tokens, used again for every chunk.

    What is read and written where is worked out once for each number of tokens: with a few hundred tokens in a
    product, making the views would take as long as the products.
    """

    def __init__(self, index_set: IndexSet, leading: tuple[int, ...], size: int, like: Tensor) -> None:
        self.index_set = index_set
        self._memory = like.new_empty(*leading, index_set.rank, size)
        self._memory[..., 0, :] = 1.0
        self._whole_first_level = len(index_set.blocks) > 0 and len(index_set.blocks[0]) == index_set.dimension
        self._plans: dict[int, tuple[Tensor, list[_Step]]] = {}

    def _plan(self, n: int) -> tuple[Tensor, list[_Step]]:
        features = self._memory[..., :n]
        steps: list[_Step] = []
        for p, block in enumerate(self.index_set.blocks, start=1):
            if p == 1 and self._whole_first_level:
                continue
            parents = features[..., slice(*self.index_set.levels[p - 1]), :]
            level = features[..., slice(*self.index_set.levels[p]), :]
            for coordinate, rows, source in block:
                into = level[..., slice(*rows), :]
                if isinstance(source, int):
                    steps.append((coordinate, parents[..., :source, :], None, into))
                else:
                    steps.append((coordinate, parents, torch.from_numpy(source).to(into.device), into))
        return features, steps

    def fill(self, x: Tensor) -> Tensor:
        """x (..., d, n) to its monomials."""
        n = x.shape[-1]
        if n not in self._plans:
            self._plans[n] = self._plan(n)
        features, steps = self._plans[n]
        if self._whole_first_level:
            features[..., 1 : 1 + x.shape[-2], :] = x
        factors = [row.unsqueeze(-2) for row in x.unbind(-2)]
        for coordinate, parents, chosen, into in steps:
            rows = parents if chosen is None else parents.index_select(-2, chosen)
            torch.mul(rows, factors[coordinate], out=into)
        return features


def monomials(x: Tensor, index_set: IndexSet) -> Tensor:
    """x (..., d, n) to the monomials (..., rank, n): tokens run fastest, so that a level is contiguous.

    >>> monomials(torch.tensor([[2.0], [3.0]]), total_degree(2, 2)).squeeze(-1).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """
    return MonomialMemory(index_set, tuple(x.shape[:-2]), x.shape[-1], x).fill(x)


def monomials_backward(x: Tensor, index_set: IndexSet, features: Tensor, grad: Tensor) -> Tensor:
    """The gradient of x (..., d, n), given the monomials and their gradient, which is overwritten on the way."""
    grad_x = torch.zeros_like(x)
    for p in range(index_set.degree, 0, -1):
        below, here = slice(*index_set.levels[p - 1]), slice(*index_set.levels[p])
        for coordinate, rows, source in index_set.blocks[p - 1]:
            child = grad[..., here, :][..., slice(*rows), :]
            parents = _take(features[..., below, :], source)
            grad_x[..., coordinate, :] += (child * parents).sum(-2)
            passed = child * x[..., coordinate : coordinate + 1, :]
            if isinstance(source, int):
                grad[..., below, :][..., :source, :] += passed
            else:
                grad[..., below, :].index_add_(-2, torch.from_numpy(source).to(x.device), passed)
    return grad_x


def _take(level: Tensor, source: int | Array) -> Tensor:
    if isinstance(source, int):
        return level[..., :source, :]
    return level.index_select(-2, torch.from_numpy(source).to(level.device))
