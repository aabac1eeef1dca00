"""Polynomials and ranks modulo the prime 2^31 - 1, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]

PRIME = 2**31 - 1


def powers(x: Array, alphas: Array) -> Array:
    """x^alpha modulo the prime, (n, rank), for x (n, d) and alphas (rank, d).

    >>> powers(np.array([[2, 3]]), np.array([[0, 0], [2, 1]])).tolist()
    [[1, 12]]
    """
    table = [np.ones_like(x)]
    for _ in range(int(alphas.max(initial=0))):
        table.append(table[-1] * x % PRIME)
    stacked = np.stack(table)  # (power, n, d)
    monomials: Array = np.ones((len(x), len(alphas)), dtype=np.int64)
    for coordinate in range(x.shape[1]):
        monomials = monomials * stacked[alphas[:, coordinate], :, coordinate].T % PRIME
    return monomials


def polynomial(coefficients: Sequence[int], s: Array) -> Array:
    """sum_p coefficients[p] s^p modulo the prime.

    >>> polynomial([1, 0, 2], np.array([3, -1])).tolist()
    [19, 3]
    """
    total = np.zeros_like(s)
    for coefficient in reversed(coefficients):
        total = (total * s + coefficient) % PRIME
    return total


def rank_modulo(matrix: Array) -> int:
    """The rank of a matrix modulo the prime, by elimination.

    >>> rank_modulo(np.array([[1, 2], [2, 4]])), rank_modulo(np.array([[1, 2], [2, 5]]))
    (1, 2)
    """
    rows = matrix % PRIME
    rank = 0
    for column in range(rows.shape[1]):
        pivots = np.flatnonzero(rows[rank:, column])
        if not len(pivots):
            continue
        rows[[rank, rank + pivots[0]]] = rows[[rank + pivots[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        below = rows[rank + 1 :]
        below -= below[:, column : column + 1] * rows[rank] % PRIME
        below %= PRIME
        rank += 1
        if rank == len(rows):
            break
    return rank
