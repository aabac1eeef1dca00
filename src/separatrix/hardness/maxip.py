"""Gap-MaxIP (Alman and Song, Definition 4.6), and the direct reduction to it from three-way orthogonal vectors.

For every i one must distinguish

    case 1: some (j, k) has <a_i, b_j, c_k> >= t,    case 2: all have <a_i, b_j, c_k> <= (1 - eps) t,

and any answer is allowed in between. The direct reduction uses the identity 1 - abc = (1 - a) + a (1 - b) + a b (1 - c)
for bits, in which each of the three terms is a product of a function of a, a function of b and a function of c. So with
3 m coordinates

    (1 - a, a, a),    (1, 1 - b, b),    (1, 1, 1 - c)    have the inner product    m - <a, b, c>:

it is m if the triple is orthogonal, and at most m - 1 if not. This is Gap-MaxIP with t = m and eps = 1/m: the vectors
are short, and the gap is small. The reduction by the protocol (see `protocol_vectors`) keeps a constant gap and has
large vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import finite
from separatrix.errors import ArgumentError
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, check_binary, inner_products


@dataclass(frozen=True)
class GapMaxIP:
    """An instance of Gap-MaxIP: three sets of binary vectors of one dimension d, the threshold t and the gap eps.

    Args:
        a: the first set, of shape (n_a, d).
        b: the second set, of shape (n_b, d).
        c: the third set, of shape (n_c, d).
        threshold: t, above 0 and at most d.
        epsilon: eps, above 0 and at most 1.
    """

    a: Tensor
    b: Tensor
    c: Tensor
    threshold: float
    epsilon: float

    def __post_init__(self) -> None:
        check_binary(self.a, self.b, self.c)
        check_gap(self.a.shape[1], self.threshold, self.epsilon)

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return self.a.shape[1]

    @property
    def pairs(self) -> int:
        """The number n_b n_c of pairs (j, k)."""
        return len(self.b) * len(self.c)

    @property
    def high(self) -> int:
        """The smallest integer of case 1."""
        return levels(self.threshold, self.epsilon)[1]

    @property
    def low(self) -> int:
        """The largest integer of case 2."""
        return levels(self.threshold, self.epsilon)[0]


def check_gap(dimension: int, threshold: float, epsilon: float) -> None:
    """Raise an error unless 0 < t <= d and 0 < eps <= 1.

    Definition 4.6 requires t > 0; no inner product reaches a t above d, and for other eps the cases overlap or case 2
    is empty.

    >>> check_gap(4, 5, 0.5)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: threshold: expected a number above 0, at most the dimension 4, got 5.
    """
    for name, value in (("threshold", threshold), ("epsilon", epsilon)):
        finite(name, value)
    if not 0 < threshold <= dimension:
        raise ArgumentError("threshold", expected=f"a number above 0, at most the dimension {dimension}", got=threshold)
    if not 0 < epsilon <= 1:
        raise ArgumentError("epsilon", expected="a number above 0, at most 1", got=epsilon)


def levels(threshold: float, epsilon: float) -> tuple[int, int]:
    """The integers (low, high) at the ends of the gap: the largest of case 2 and the smallest of case 1.

    A float eps is often rounded, so a (1 - eps) t that is below an integer by no more than 1e-9 t counts as that
    integer. This can only make the gap smaller, and the problem harder.

    >>> levels(3, 1 / 3), levels(2.5, 0.5), levels(10, 0.9)
    ((2, 3), (1, 3), (1, 10))
    """
    high = math.ceil(threshold)
    return min(math.floor((1 - epsilon) * threshold + 1e-9 * threshold), high - 1), high


def largest_products(instance: GapMaxIP) -> Tensor:
    """The largest inner product max_{j, k} <a_i, b_j, c_k> for each i, (n_a,), by the definition."""
    return inner_products(instance.a, instance.b, instance.c).flatten(1).amax(1)


def gap_maxip(instance: GapMaxIP) -> list[bool | None]:
    """For each i, True in case 1, False in case 2 and None in between, by the definition.

    >>> eye = torch.eye(3)
    >>> gap_maxip(GapMaxIP(torch.ones(1, 3), eye, eye, 1, 0.5)), gap_maxip(GapMaxIP(eye, eye, eye, 3, 0.5))
    ([True], [False, False, False])
    """
    largest = largest_products(instance).tolist()
    return [True if product >= instance.high else False if product <= instance.low else None for product in largest]


def to_maxip(instance: OrthogonalVectors) -> GapMaxIP:
    """The direct reduction: each inner product becomes m - <a_i, b_j, c_k>, in 3 m coordinates.

    Row i of a set of the result belongs to row i of the same set of the instance.

    >>> bits = torch.tensor([[0], [1]])
    >>> instance = to_maxip(OrthogonalVectors(bits, bits, bits))
    >>> inner_products(instance.a, instance.b, instance.c).flatten().tolist()
    [1, 1, 1, 1, 1, 1, 1, 0]
    """
    a, b, c = (vectors.to(torch.uint8) for vectors in (instance.a, instance.b, instance.c))
    m = instance.dimension
    ones = torch.ones(1, m, dtype=torch.uint8)
    return GapMaxIP(
        torch.cat([1 - a, a, a], 1),
        torch.cat([ones.expand(len(b), m), 1 - b, b], 1),
        torch.cat([ones.expand(len(c), m), ones.expand(len(c), m), 1 - c], 1),
        threshold=m,
        epsilon=1 / m,
    )
