"""An index set in the form that the Triton kernels read: the factors of each monomial, and the monomials of each
coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.near_linear.approximation.monomials import IndexSet


@lru_cache(maxsize=64)
def factor_table(index_set: IndexSet) -> np.ndarray:
    """The coordinates of each monomial, (rank, degree), in ascending order; d where it has no more.

    >>> from separatrix.attention.near_linear.approximation.monomials import total_degree
    >>> factor_table(total_degree(2, 2)).tolist()
    [[2, 2], [0, 2], [1, 2], [0, 0], [0, 1], [1, 1]]
    """
    rank, d = index_set.alphas.shape
    factors = np.full((rank, max(index_set.degree, 1)), d, dtype=np.int32)
    for row, alpha in enumerate(index_set.alphas):
        listed = np.repeat(np.arange(d), alpha)
        factors[row, : len(listed)] = listed
    return factors


@lru_cache(maxsize=64)
def pair_table(index_set: IndexSet) -> tuple[np.ndarray, np.ndarray]:
    """For each coordinate l the multi-indices alpha that contain it: the start of its list, and all lists concatenated.

    Returns:
        The starts (d + 1,), and the pairs (3, pairs): the row of alpha, the row of alpha - e_l, and alpha_l.

    Example:
        >>> from separatrix.attention.near_linear.approximation.monomials import total_degree
        >>> begins, pairs = pair_table(total_degree(2, 2))
        >>> begins.tolist(), pairs.tolist()
        ([0, 3, 6], [[1, 3, 4, 2, 4, 5], [0, 1, 2, 0, 1, 2], [1, 2, 1, 1, 1, 2]])
    """
    alphas = index_set.alphas
    places = {alpha.tobytes(): row for row, alpha in enumerate(alphas)}
    begins, lists = [0], [np.zeros((3, 0), dtype=np.int64)]
    for coordinate in range(index_set.dimension):
        rows = np.flatnonzero(alphas[:, coordinate])
        less = alphas[rows].copy()
        less[:, coordinate] -= 1
        below = np.array([places[alpha.tobytes()] for alpha in less], dtype=np.int64)
        lists.append(np.stack([rows, below, alphas[rows, coordinate]]))
        begins.append(begins[-1] + len(rows))
    return np.array(begins, dtype=np.int32), np.concatenate(lists, 1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of an index set on a device, and its sizes."""

    rank: int
    dimension: int
    degree: int
    factors: Tensor
    begins: Tensor
    pairs: Tensor


@lru_cache(maxsize=64)
def tables(index_set: IndexSet, device: torch.device) -> Tables:
    """The tables of an index set on a device, computed once."""
    arrays = (factor_table(index_set), *pair_table(index_set))
    factors, begins, pairs = (torch.from_numpy(array).to(device) for array in arrays)
    return Tables(index_set.rank, index_set.dimension, factors.shape[1], factors, begins, pairs)
