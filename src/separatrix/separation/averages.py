r"""Weighted averages of values as linear functions of the signs y, and which sign vectors exceed a threshold: exactly.

A query fires on y when

    sum_j W_j (<v_j, y> - tau) > 0

over its keys (or pairs of keys) j, if the sum of the weights W_j is positive. The sum is linear in y, and its
coefficients are exact (`forms`). So the sums of many y are computed in float64 at once. If a sum is so small that
rounding might have changed its sign, the exact sign is computed, once for each different sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from separatrix.separation.forms import Factor, Form, evaluate, ratio, sign, times

_DOUBTFUL = 1e-9

Masks = NDArray[np.bool_]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Weighted:
    """The weight of a value.

    Attributes:
        weight: the exact weight.
        value: the value, in units of L^unit.
        unit: the power of L in the unit of the value.
        count: how many keys, or pairs of keys, have this weight and this value.
    """

    weight: Form
    value: Sequence[Fraction]
    unit: int
    count: int


@dataclass(frozen=True)
class Average:
    """A weighted average of values, and a threshold for it.

    Attributes:
        n: the number of tokens.
        exact: the exact coefficient of each y_i in the sum of the weighted values.
        constant: the threshold times the sum of the weights, exactly.
        c: the coefficients of the average in float64.
        tau: the threshold in float64.
    """

    n: int
    exact: tuple[Form, ...]
    constant: Form
    c: Vector
    tau: float

    def exceeds(self, Y: Vector) -> Masks:
        """For each column of Y, whether the average exceeds the threshold, by exact arithmetic."""
        # Coordinates with equal coefficients contribute through the sum of their signs.
        groups: dict[frozenset[object], list[int]] = defaultdict(list)
        for i, form in enumerate(self.exact):
            groups[frozenset(form.items())].append(i)
        sums = np.stack([Y[members].sum(0) for members in groups.values()]).astype(np.int64)
        different, which = np.unique(sums, axis=1, return_inverse=True)
        forms = [self.exact[members[0]] for members in groups.values()]
        return np.array([self._sign(forms, column.tolist()) > 0 for column in different.T])[which.ravel()]

    def _sign(self, forms: list[Form], sums: list[int]) -> int:
        total: dict[tuple[int, Factor], Fraction] = defaultdict(Fraction)
        for form, number in [*zip(forms, sums, strict=True), (self.constant, -1)]:
            for key, q in form.items():
                total[key] += number * q
        return sign(self.n, total)


def average(n: int, d: int, weighted: Iterable[Weighted], tau: tuple[Fraction, int]) -> Average | None:
    """The average of weighted values of width d with the threshold tau = q L^p; None if all weights are zero."""
    coefficients: list[dict[tuple[int, Factor], Fraction]] = [defaultdict(Fraction) for _ in range(d)]
    total: dict[tuple[int, Factor], Fraction] = defaultdict(Fraction)
    for term in weighted:
        for i, x in enumerate(term.value):
            for key, q in times(term.weight, term.count * x, term.unit).items():
                coefficients[i][key] += q
        for key, q in times(term.weight, Fraction(term.count)).items():
            total[key] += q
    if not any(total.values()):
        return None
    constant = times(total, *tau)
    *numerators, last, weight = (value for value, _ in evaluate(n, [*coefficients, constant, total]))
    c = np.array([float(ratio(value, weight)) for value in numerators])
    return Average(n, tuple(coefficients), constant, c, float(ratio(last, weight)))


def fires(averages: Sequence[Average], Y: Vector) -> Masks:
    """For each column of Y, whether some average exceeds its threshold, decided exactly."""
    c, tau = np.stack([row.c for row in averages]), np.array([row.tau for row in averages])[:, None]
    doubt = _DOUBTFUL * (np.abs(c).sum(1, keepdims=True) + np.abs(tau))
    excess = c @ Y - tau
    answer = np.asarray((excess > doubt).any(0))
    for row, near in zip(averages, np.abs(excess) <= doubt, strict=True):
        undecided = np.flatnonzero(near & ~answer)
        if len(undecided):
            answer[undecided] = row.exceeds(Y[:, undecided])
    return answer


def sign_vectors(d: int, which: slice = slice(None)) -> Vector:
    """The sign vectors as columns, of shape (d, 2^d), or a range of them; y_i = -1 where bit i of the column's
    index is 1.

    >>> sign_vectors(2).tolist()
    [[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]
    """
    counter = np.arange(*which.indices(1 << d))
    return np.asarray(1.0 - 2.0 * ((counter[None, :] >> np.arange(d)[:, None]) & 1), dtype=np.float64)
