"""Sets of multi-indices, and their monomials x^alpha, built level by level from their parents.

The polynomial method writes P(<q, k_1, ..., k_{k-1}>) as a sum over multi-indices alpha of q^alpha k_1^alpha ...
(Alman and Song, "How to Capture Higher-order Correlations?", Lemma E.1). Every factor has the *same* alpha, so the rank
is the number of alphas over the d coordinates, C(d + g, g) for total degree g, where the lemma counts the monomials of
all k d variables, C(k (d + g), k g).

A set is closed downward: with alpha it has every smaller multi-index. Level p has the alphas with |alpha| = p, sorted
by their largest coordinate; alpha's parent is alpha with one less at that coordinate. In a total-degree set the
children by coordinate l of a level are then a copy of the beginning of the level, multiplied by x_l: no gathers, and
one product per monomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.int64]
_RUNS = 8
"""The largest number of runs that a step's parents may form; gathering is cheaper with more."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The order in which monomials are computed: alpha = 0 first, and each parent before its children.

    Each of `copies` is (rows, coordinates): these rows are copies of coordinates. Then each of `products` is
    (coordinate, parents, children): rows of parents times the coordinate give the rows of children.
    """

    rank: int
    copies: tuple[tuple[slice, slice], ...]
    products: tuple[tuple[int, slice | Array, slice], ...]


@dataclass(frozen=True, eq=False)
class IndexSet:
    """`alphas` (rank, d), level after level; `levels[p]` is the half-open range of rows with |alpha| = p.

    `last` (rank,) is the largest coordinate of alpha, -1 for alpha = 0, and `parents` (rank,) is the row of alpha with
    one less there.
    """

    alphas: Array
    levels: tuple[tuple[int, int], ...]
    last: Array
    parents: Array

    @cached_property
    def rank(self) -> int:
        return len(self.alphas)

    @cached_property
    def degree(self) -> int:
        return len(self.levels) - 1

    @cached_property
    def dimension(self) -> int:
        return int(self.alphas.shape[1])

    @cached_property
    def steps(self) -> Steps:
        """The steps that compute the monomials, in the order of `alphas`."""
        return make_steps(self.degrees, self.last, self.parents)

    @cached_property
    def degrees(self) -> Array:
        """|alpha| of each multi-index."""
        return self.alphas.sum(1)  # type: ignore[no-any-return]

    @cached_property
    def multinomials(self) -> npt.NDArray[np.float64]:
        """|alpha|! / alpha!, the coefficient of x^alpha in (x_1 + ... + x_d)^|alpha|."""
        factorial = np.array([float(math.factorial(p)) for p in range(self.degree + 1)])
        return factorial[self.degrees] / factorial[self.alphas].prod(1)  # type: ignore[no-any-return]


def make_steps(degrees: Array, last: Array, parents: Array) -> Steps:
    """The steps that compute monomials, given row by row; rows of one degree and one coordinate form one step.

    >>> make_steps(np.array([0, 1, 1, 2, 2]), np.array([-1, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1])).products
    ((0, slice(1, 2, None), slice(3, 4, None)), (1, slice(1, 2, None), slice(4, 5, None)))
    """
    copies = tuple(
        (slice(first, stop), slice(int(last[first]), int(last[first]) + stop - first))
        for first, stop in _runs((np.diff(degrees, prepend=-1) != 0) | (np.diff(last, prepend=-2) != 1))
        if degrees[first] == 1
    )
    products: list[tuple[int, slice | Array, slice]] = []
    for first, stop in _runs((np.diff(degrees, prepend=-1) != 0) | (np.diff(last, prepend=-2) != 0)):
        if degrees[first] < 2:
            continue
        coordinate, above = int(last[first]), parents[first:stop]
        runs = _runs(np.diff(above, prepend=-2) != 1)
        if len(runs) > _RUNS:
            products.append((coordinate, above, slice(first, stop)))
            continue
        for start, end in runs:
            parent = int(above[start])
            products.append((coordinate, slice(parent, parent + end - start), slice(first + start, first + end)))
    return Steps(len(degrees), copies, tuple(products))


def _runs(begins: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The half-open ranges that begin at `begins`."""
    starts = np.flatnonzero(begins).tolist()
    return list(pairwise([*starts, len(begins)]))


@lru_cache(maxsize=64)
def total_degree(d: int, degree: int) -> IndexSet:
    """All alphas over d coordinates with |alpha| <= degree.

    >>> total_degree(2, 2).alphas.tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    >>> total_degree(8, 4).rank, math.comb(3 * (8 + 4), 3 * 4)  # the rank, and the count of the paper's Lemma E.1
    (495, 1251677700)
    """
    level = np.zeros((1, d), dtype=np.int64)
    rows, levels, last, parents = [level], [(0, 1)], [np.array([-1])], [np.array([0])]
    ends = [1] * d
    for _ in range(degree):
        above = levels[-1][0]
        children = [level[:end].copy() for end in ends]
        for coordinate, child in enumerate(children):
            child[:, coordinate] += 1
            last.append(np.full(len(child), coordinate))
            parents.append(np.arange(above, above + len(child)))
        level = np.concatenate([level[:0], *children])
        ends = np.cumsum(ends).tolist()
        rows.append(level)
        levels.append((levels[-1][1], levels[-1][1] + len(level)))
    return IndexSet(np.concatenate(rows), tuple(levels), np.concatenate(last), np.concatenate(parents))


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
    bounds = np.searchsorted(degrees, np.arange(int(degrees[-1]) + 2)).tolist()
    return IndexSet(rows, tuple(pairwise(bounds)), last, above)


def monomials(x: Tensor, index_set: IndexSet) -> Tensor:
    """x (..., d, n) to the monomials (..., rank, n): tokens run fastest, so that a level is contiguous.

    >>> monomials(torch.tensor([[2.0], [3.0]]), total_degree(2, 2)).squeeze(-1).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """
    features = x.new_empty(*x.shape[:-2], index_set.rank, x.shape[-1])
    features[..., 0, :] = 1.0
    for rows, coordinates in index_set.steps.copies:
        features[..., rows, :] = x[..., coordinates, :]
    for coordinate, parents, children in index_set.steps.products:
        above = parents if isinstance(parents, slice) else torch.from_numpy(parents).to(x.device)
        features[..., children, :] = features[..., above, :] * x[..., coordinate : coordinate + 1, :]
    return features


def monomials_backward(x: Tensor, index_set: IndexSet, features: Tensor, grad: Tensor) -> Tensor:
    """The gradient of x (..., d, n), given the monomials and their gradient; the latter is overwritten."""
    steps, grad_x = index_set.steps, torch.zeros_like(x)
    for coordinate, parents, children in reversed(steps.products):
        child = grad[..., children, :]
        passed = child * x[..., coordinate : coordinate + 1, :]
        if isinstance(parents, slice):
            grad_x[..., coordinate, :] += (child * features[..., parents, :]).sum(-2)
            grad[..., parents, :] += passed
        else:
            chosen = torch.from_numpy(parents).to(x.device)
            grad_x[..., coordinate, :] += (child * features.index_select(-2, chosen)).sum(-2)
            grad.index_add_(-2, chosen, passed)
    for rows, coordinates in steps.copies:
        grad_x[..., coordinates, :] += grad[..., rows, :]
    return grad_x
