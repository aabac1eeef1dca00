r"""The (q, delta)-restricted isometry and orthogonality constant of an encoding: exact for small sizes, else bounds.

Definition A.1 of Wang, Wei, Hsu and Lee requires, for all v, v' of disjoint supports of sizes at most q and 2q,

    (1 - delta) |v|^2 <= |E v|^2 <= (1 + delta) |v|^2    and    |<E v, E v'>| <= delta |v| |v'|.

With G the Gram matrix of the encodings, the smallest such delta is the larger of

    isometry       max_S       || G_SS - I ||,    |S| = q
    orthogonality  max_{S,S'}  || G_SS' ||,       S, S' disjoint, |S| = q, |S'| = 2q

in the spectral norm: both norms grow with the sets, so only sets of these sizes count, or, when 3q > T, pairs that fill
[T].

A lower bound is the norm for some pair of sets. The upper bound does not need the sets: a norm is at most the geometric
mean of the largest row and column sums of magnitudes, and at most the Frobenius norm. A row of G_SS' sums to at most
the sum of its 2q largest entries, a column to at most the sum of its q largest entries, and the Frobenius norm is at
most that of the q rows with the largest norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.task import all_subsets

ENUMERABLE = 200_000
"""The largest number of sets or pairs of sets that are enumerated; for more, only bounds on the constant are
computed."""


@dataclass(frozen=True)
class IsometryConstant:
    """Bounds lower <= delta <= upper on the constant.

    Attributes:
        isometry: bounds on the isometry part of delta.
        orthogonality: bounds on the orthogonality part of delta.
        exact: whether all sets were enumerated, so that both bounds are equal.
    """

    isometry: tuple[float, float]
    orthogonality: tuple[float, float]
    exact: bool

    @property
    def lower(self) -> float:
        """The lower bound, which is attained by a pair of sets."""
        return max(self.isometry[0], self.orthogonality[0])

    @property
    def upper(self) -> float:
        """The upper bound, which no pair of sets exceeds."""
        return max(self.isometry[1], self.orthogonality[1])


def coherence(E: Tensor) -> float:
    """The largest |<e_i, e_j>| over pairs of rows of E (T, width).

    >>> coherence(torch.tensor([[1.0, 0.0], [0.6, 0.8]])) - 0.6 < 1e-7
    True
    """
    gram = E @ E.mT
    gram.fill_diagonal_(0)
    return float(gram.abs().max())


def restricted_isometry(E: Tensor, q: int) -> IsometryConstant:
    """The constant delta of Definition A.1 for the rows of E (T, width), up to rounding of a few units.

    >>> one_hot = restricted_isometry(torch.eye(6), 2)
    >>> one_hot.lower, one_hot.upper, one_hot.exact
    (0.0, 0.0, True)
    """
    if E.dim() != 2:
        raise ArgumentError("E", expected="shape (T, width)", got=tuple(E.shape))
    T = E.shape[0]
    q = whole("q", q, low=1, high=T)
    G = E.double() @ E.double().mT
    G.diagonal().sub_(1)
    exact_isometry = math.comb(T, q) <= ENUMERABLE
    shapes = _pair_shapes(T, q)
    exact_pairs = sum(math.comb(T, a) * math.comb(T - a, b) for a, b in shapes) <= ENUMERABLE
    isometry = _enumerated_isometry(G, q) if exact_isometry else None
    pairs = _enumerated_pairs(G, shapes) if exact_pairs else None
    return IsometryConstant(
        (isometry, isometry) if isometry is not None else (_searched_isometry(G, q), _bounded(G, q, q, 1)),
        (pairs, pairs) if pairs is not None else (_searched_pairs(G, q), _bounded(G, q, min(2 * q, T - 1), 0)),
        exact_isometry and exact_pairs,
    )


def _pair_shapes(T: int, q: int) -> list[tuple[int, int]]:
    """The maximal sizes (|S|, |S'|) of disjoint sets with |S| <= q, |S'| <= 2q inside [T].

    >>> _pair_shapes(9, 2), _pair_shapes(5, 2), _pair_shapes(1, 1)
    ([(2, 4)], [(1, 4), (2, 3)], [])
    """
    smallest = max(1, min(q, T - 2 * q))
    return [(a, min(2 * q, T - a)) for a in range(smallest, q + 1) if a < T]


def _enumerated_isometry(G: Tensor, q: int) -> float:
    S = all_subsets(G.shape[0], q)
    return float(torch.linalg.eigvalsh(G[S.unsqueeze(2), S.unsqueeze(1)]).abs().max())


def _enumerated_pairs(G: Tensor, shapes: list[tuple[int, int]]) -> float:
    largest = 0.0
    for a, b in shapes:
        for S, complement in _with_complements(G.shape[0], a):
            S_prime = complement[all_subsets(len(complement), b)]
            blocks = G[S.view(1, -1, 1), S_prime.unsqueeze(1)]
            largest = max(largest, float(torch.linalg.matrix_norm(blocks, 2).max()))
    return largest


def _with_complements(T: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    everything = torch.arange(T)
    for S in all_subsets(T, size):
        yield S, everything[~torch.isin(everything, S)]


def _bounded(G: Tensor, a: int, b: int, diagonal: int) -> float:
    """An upper bound on the norm of every a by b block of G.

    The off-diagonal entries are sorted by magnitude, and the diagonal of G, which is zero for unit vectors, is added if
    the blocks contain it.

    Args:
        G: the Gram matrix minus the identity.
        a: the number of rows of a block.
        b: the number of columns of a block.
        diagonal: how many entries of the diagonal a row of a block has, 0 or 1.
    """
    magnitudes = G.abs()
    on_diagonal = float(magnitudes.diagonal().max()) * diagonal
    magnitudes.fill_diagonal_(0)
    descending = magnitudes.sort(1, descending=True).values
    row = float(descending[:, : b - diagonal].sum(1).max()) + on_diagonal
    column = float(descending[:, : a - diagonal].sum(1).max()) + on_diagonal
    squares = descending[:, : b - diagonal].square().sum(1) + on_diagonal**2
    frobenius = math.sqrt(float(squares.sort(descending=True).values[:a].sum()))
    rounding = 8 * (a + b) * torch.finfo(G.dtype).eps
    return min(math.sqrt(row * column), frobenius) + rounding


def _searched_isometry(G: Tensor, q: int) -> float:
    """A lower bound: the largest norm of a set that is found by extending pairs greedily."""
    T = G.shape[0]
    partner = G.abs().fill_diagonal_(0).argmax(1)
    best = 0.0
    for start in range(T):
        S = [start] if q == 1 else [start, int(partner[start])]
        while len(S) < q:
            rest = torch.tensor([k for k in range(T) if k not in S])
            trial = torch.cat([torch.tensor(S).expand(len(rest), -1), rest.unsqueeze(1)], 1)
            norms = torch.linalg.eigvalsh(G[trial.unsqueeze(2), trial.unsqueeze(1)]).abs().amax(1)
            S.append(int(rest[norms.argmax()]))
        block = G[S][:, S]
        best = max(best, float(torch.linalg.eigvalsh(block).abs().max()))
    return best


def _searched_pairs(G: Tensor, q: int) -> float:
    """A lower bound: the largest norm of a pair of sets that is found by alternating from every single position.

    For a vector on S the best set S' consists of the largest entries of its image outside S, and vice versa, so every
    exchange raises the norm until it stops growing.
    """
    T = G.shape[0]
    best = 0.0
    for start in range(T):
        S, u, reached = torch.tensor([start]), torch.ones(1, dtype=G.dtype), -1.0
        while True:
            S_prime = _largest_outside(u @ G[S], S, min(2 * q, T - len(S)))
            _, values, V = torch.linalg.svd(G[S][:, S_prime])
            if float(values[0]) <= reached * (1 + 1e-12):
                break
            reached = float(values[0])
            S = _largest_outside(V[0] @ G[S_prime], S_prime, min(q, T - len(S_prime)))
            u = torch.linalg.svd(G[S][:, S_prime])[0][:, 0]
        best = max(best, reached)
    return best


def _largest_outside(image: Tensor, excluded: Tensor, size: int) -> Tensor:
    """The `size` positions of largest magnitude outside `excluded`."""
    magnitudes = image.abs().index_fill(0, excluded, -1.0)
    return magnitudes.topk(size).indices
