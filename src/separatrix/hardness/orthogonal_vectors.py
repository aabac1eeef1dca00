"""SAT as three-way orthogonal vectors (Alman and Song, Definition 4.2, Conjecture 4.3; after Williams).

The variables are split into three parts. A partial assignment of a part becomes a vector with a coordinate for each
clause: 1 where the assignment leaves the clause unsatisfied. Three partial assignments together satisfy the formula if
no clause is left unsatisfied by all three of them, which is

    <a, b, c> = sum_l a_l b_l c_l = 0.

With v variables and m clauses there are about n = 2^(v/3) vectors in each set, of dimension m, so an algorithm for
3OV in time n^(3 - eps) would solve SAT in time 2^((1 - eps/3) v).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.hardness.cnf import Assignment, Formula

Triple = tuple[int, int, int]

LARGEST_ORACLE = 1 << 26
"""The largest number of triples that the direct evaluations of the definitions try."""


@dataclass(frozen=True)
class OrthogonalVectors:
    """An instance of 3OV, three-way orthogonal vectors: three sets of binary vectors of one dimension m.

    In the paper all sets have the same size n; here their sizes may differ. Repeating a vector makes the sizes equal
    and changes no answer.

    Args:
        a: the first set, of shape (n_a, m).
        b: the second set, of shape (n_b, m).
        c: the third set, of shape (n_c, m).
    """

    a: Tensor
    b: Tensor
    c: Tensor

    def __post_init__(self) -> None:
        check_binary(self.a, self.b, self.c)

    @property
    def dimension(self) -> int:
        """The dimension m of the vectors."""
        return self.a.shape[1]

    @property
    def sizes(self) -> Triple:
        """The sizes (n_a, n_b, n_c) of the sets."""
        return len(self.a), len(self.b), len(self.c)


def check_binary(*sets: Tensor) -> None:
    """Raise an error unless the three sets a, b and c hold vectors of one dimension with entries 0 and 1.

    >>> check_binary(torch.zeros(2, 3), torch.ones(1, 3), torch.full((1, 3), 0.5))
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: c: expected zeros and ones alone, got 0.5 at (0, 0).
    """
    for name, vectors in zip("abc", sets, strict=True):
        if not isinstance(vectors, Tensor) or vectors.ndim != 2 or 0 in vectors.shape:
            shape = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
            raise ArgumentError(name, expected="a tensor of shape (vectors, dimension), neither 0", got=shape)
        d = sets[0].shape[1]
        if vectors.shape[1] != d:
            raise ArgumentError(name, expected=f"vectors of dimension {d}, as in a", got=vectors.shape[1])
        invalid = (vectors != 0) & (vectors != 1)
        if bool(invalid.any()):
            at = tuple(invalid.nonzero()[0].tolist())
            raise ArgumentError(name, expected="zeros and ones alone", got=f"{vectors[at].item()} at {at}")


def inner_products(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """All inner products <a_i, b_j, c_k>, (n_a, n_b, n_c), int64, by the definition.

    Raises:
        ArgumentError: if there are more than `LARGEST_ORACLE` triples.

    Example:
        >>> vectors = torch.tensor([[1, 1, 0], [1, 1, 1]])
        >>> inner_products(vectors, vectors, vectors)[0].tolist()
        [[2, 2], [2, 2]]
    """
    triples = len(a) * len(b) * len(c)
    if triples > LARGEST_ORACLE:
        raise ArgumentError("a, b, c", expected=f"at most {LARGEST_ORACLE} triples for the definition", got=triples)
    pairs = b.double()[:, None, :] * c.double()[None, :, :]
    # Products and sums of such small integers are exact in float64.
    return torch.einsum("il,jkl->ijk", a.double(), pairs).long()


def orthogonal_triple(instance: OrthogonalVectors) -> Triple | None:
    """The first (i, j, k) with <a_i, b_j, c_k> = 0, or None if there is none, found by trying all triples."""
    triples = (inner_products(instance.a, instance.b, instance.c) == 0).nonzero()
    return None if not len(triples) else _triple(triples[0])


def _triple(row: Tensor) -> Triple:
    i, j, k = row.tolist()
    return i, j, k


def parts(variables: int) -> tuple[range, range, range]:
    """Split the variables, numbered from 1, into three parts whose sizes differ by at most one, larger parts first.

    >>> [list(part) for part in parts(7)]
    [[1, 2, 3], [4, 5], [6, 7]]
    """
    base, rest = divmod(variables, 3)
    ends = [0]
    for part in range(3):
        ends.append(ends[-1] + base + (part < rest))
    first, second, third = (range(ends[p] + 1, ends[p + 1] + 1) for p in range(3))
    return first, second, third


def to_orthogonal_vectors(formula: Formula) -> OrthogonalVectors:
    """The instance of 3OV for a formula: a triple is orthogonal if and only if its assignments together satisfy the
    formula.

    In the assignment of row i, the p-th variable of the part is bit p, of value 2^p, of i. A formula without clauses is
    satisfied by every assignment; its vectors have one coordinate, which is 0.

    >>> instance = to_orthogonal_vectors(Formula(3, ((1, 2), (-1, 3))))
    >>> instance.a.tolist(), instance.b.tolist(), instance.c.tolist()
    ([[1, 0], [0, 1]], [[1, 1], [0, 1]], [[1, 1], [1, 0]])
    """
    a, b, c = (_unsatisfied(formula, part) for part in parts(formula.variables))
    return OrthogonalVectors(a, b, c)


def _unsatisfied(formula: Formula, part: range) -> Tensor:
    """A uint8 matrix (2^part, clauses) with 1 where an assignment of a part's variables does not satisfy the clause."""
    clauses = max(1, len(formula.clauses))
    literals = torch.tensor(list(chain.from_iterable(formula.clauses)), dtype=torch.int64)
    clause = torch.arange(len(formula.clauses)).repeat_interleave(torch.tensor(list(map(len, formula.clauses))).long())
    within = (literals.abs() >= part.start) & (literals.abs() < part.stop)
    literals, clause = literals[within], clause[within]
    # has[p, 1] marks the clauses with the p-th variable of the part, has[p, 0] those with its negation.
    has = torch.zeros(len(part), 2, clauses, dtype=torch.bool)
    has[literals.abs() - part.start, (literals > 0).long(), clause] = True
    rows = torch.arange(2 ** len(part))
    satisfied = torch.zeros(len(rows), clauses, dtype=torch.bool)
    for p in range(len(part)):
        satisfied |= has[p][rows >> p & 1]
    left = (~satisfied).to(torch.uint8)
    return left if formula.clauses else torch.zeros_like(left)


def assignment_of(formula: Formula, triple: Triple) -> Assignment:
    """The assignment that corresponds to a triple of rows of `to_orthogonal_vectors`.

    >>> assignment_of(Formula(3, ((1, 2), (-1, 3))), (1, 0, 1))
    (True, False, True)
    """
    values: list[bool] = []
    for row, part in zip(triple, parts(formula.variables), strict=True):
        if not 0 <= row < 2 ** len(part):
            raise ArgumentError("triple", expected=f"rows below {2 ** len(part)} for a part of {len(part)}", got=row)
        values += [bool(row >> p & 1) for p in range(len(part))]
    return tuple(values)
