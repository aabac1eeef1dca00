r"""Self-attention with any matrix Q K^T: which of the 2^d sign vectors fire, decided exactly, for d <= 20.

A general matrix may distinguish all classes, so that the number of signs +1 does not determine whether a sign vector
fires. But the n rows still have at most d - 1 different values v_j (j3, and one of each class), so with multiplicities
mu_j row j0 fires on y exactly when

    sum_j mu_j w_j (<v_j, y> - tau) > 0,    w_j = n^{v_{j0}^T QK^T v_j},  or v_{j0}^T QK^T v_j itself for `lin`,

(v_j and tau in units of sqrt(log n)). This is evaluated in float64 for all y at once. If the result is so small that
rounding might have changed its sign, `radicals.sign` decides, once for each different sum.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation.mixture import Mixture, Share
from separatrix.separation.radicals import Term, power, sign

__all__ = ["LARGEST_D", "enumerated_mixture"]

LARGEST_D = 20
"""The largest width whose 2^d sign vectors are enumerated."""
_DOUBTFUL = 1e-9
_BATCH = 1 << 14

Matrix = tuple[tuple[Fraction, ...], ...]
Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class _Sum:
    """The sum that decides whether row j0 fires, as a linear form in y and a constant, both exact and in float64.

    Attributes:
        n: the number of tokens.
        exact: for each i, the terms (q, e, l) of the coefficient of y_i.
        constant: the terms of the constant, which is a multiple of -tau.
        coefficients: the coefficients in float64, up to a common positive factor.
        threshold: minus the constant in float64, up to the same factor.
    """

    n: int
    exact: tuple[tuple[Term, ...], ...]
    constant: tuple[Term, ...]
    coefficients: list[float]
    threshold: float

    def decide(self, Y: NDArray[np.float64]) -> Masks:
        """For each column of Y, whether the sum is positive, decided exactly."""
        # Coordinates with equal coefficients contribute through the sum of their signs.
        groups = {form: [i for i, term in enumerate(self.exact) if term == form] for form in set(self.exact)}
        sums = np.stack([Y[members].sum(0) for members in groups.values()]).astype(np.int64)
        different, which = np.unique(sums, axis=1, return_inverse=True)
        positive = [self._sign(dict(zip(groups, column.tolist(), strict=True))) > 0 for column in different.T]
        return np.array(positive)[which.ravel()]

    def _sign(self, sums: dict[tuple[Term, ...], int]) -> int:
        terms = [(s * q, e, logs) for form, s in sums.items() for q, e, logs in form]
        return sign(self.n, [*terms, *self.constant])


class _RowSums:
    """The sums of all rows of one network on one data set."""

    def __init__(self, sums: list[_Sum]) -> None:
        self.sums = sums
        # Scaled so that the sign of a value is uncertain only if its magnitude is at most 1. The last column is the
        # constant.
        forms = np.array([[*row.coefficients, -row.threshold] for row in sums])
        self.forms = forms / (_DOUBTFUL * np.abs(forms).sum(1, keepdims=True))

    def fires(self, Y: NDArray[np.float64]) -> Masks:
        """For each column of Y, whose last row is 1, whether some row fires."""
        largest = (self.forms @ Y).max(0)
        answer = largest > 1
        doubtful = np.flatnonzero((largest >= -1) & ~answer)
        if len(doubtful):
            here = Y[:, doubtful]
            for row, near in zip(self.sums, np.abs(self.forms @ here) <= 1, strict=True):
                if near.any():
                    answer[doubtful[near]] |= row.decide(here[:-1, near])
        return np.asarray(answer)


def enumerated_mixture(
    n: int, d: int, a0: Fraction, a1: Fraction, b: Fraction, c: Fraction, tau: Fraction, logs: int, weights: Matrix
) -> Mixture:
    """The shares of the sign vectors by case, for any matrix Q K^T.

    `mixture.attention_mixture` returns the same for the identity and the all-ones matrix.

    Args:
        n: the number of tokens.
        d: the width of a token, at most 20.
        a0: the first coordinate of the special token in D0, in units of sqrt(log n).
        a1: the first coordinate of the special token in D1, in the same unit.
        b: the factor of the stacked identities, in the same unit.
        c: the factor of the ones, in the same unit.
        tau: the threshold, in the same unit if `logs` is 0, absolute if it is 1.
        logs: 0 or 1, see `tau`.
        weights: Q K^T, of shape (d, d).
    """
    if d > LARGEST_D:
        expected = f"at most {LARGEST_D} for weights neither identity nor ones, or for negative parameters"
        raise ArgumentError("d", expected=expected, got=d)
    g = d - 2
    t, larger = divmod(n, g)
    sizes = [t + (k < larger) for k in range(g)]
    classes = [k for k in range(g) if sizes[k]]
    case = {k: Fraction(sizes[k], n) for k in classes}
    networks = {
        # Linear attention comes first, because it raises an error if all scores are zero.
        (which, k): [
            _RowSums(_sums(n, sizes, k, a, b, c, tau, logs, weights, linear=linear)) for linear in (True, False)
        ]
        for which, a in ((1, a1), (0, a0))
        for k in classes
    }
    fires: dict[tuple[int, int], list[Masks]] = {
        key: [np.empty(1 << d, dtype=bool) for _ in (0, 1)] for key in networks
    }
    for start in range(0, 1 << d, _BATCH):
        vectors = slice(start, min(start + _BATCH, 1 << d))
        Y = _sign_vectors(d, vectors)
        for key, pair in networks.items():
            for mask, rows in zip(fires[key], pair, strict=True):
                mask[vectors] = rows.fires(Y)

    def share(mask: Masks) -> Share:
        return int(np.count_nonzero(mask)), 1 << d

    joint = []
    for k1 in classes:
        for k0 in classes:
            lin1, good = fires[1, k1]
            bad = lin1 | fires[0, k0][0] | fires[0, k0][1]
            joint.append((case[k1] * case[k0], share(bad), share(good & ~bad)))
    d1, d0 = (
        tuple((case[k], share(fires[which, k][1]), share(fires[which, k][0])) for k in classes) for which in (1, 0)
    )
    return Mixture(tuple(joint), d1, d0)


def _sign_vectors(d: int, which: slice) -> NDArray[np.float64]:
    """A range of the sign vectors as columns, above a row of ones: shape (d + 1, number of vectors)."""
    counter = np.arange(which.start, which.stop, dtype=np.uint32)
    Y = np.ones((d + 1, len(counter)))
    Y[:-1] -= 2.0 * ((counter[None, :] >> np.arange(d, dtype=np.uint32)[:, None]) & 1)
    return Y


def _sums(
    n: int,
    sizes: list[int],
    k: int,
    a: Fraction,
    b: Fraction,
    c: Fraction,
    tau: Fraction,
    logs: int,
    weights: Matrix,
    *,
    linear: bool,
) -> list[_Sum]:
    """The sums that decide whether the rows of an element with j3 in class k fire, one for each different row."""
    g = len(sizes)
    # The rows, grouped by their nonzero coordinates.
    rows = [{0: a, 1 + k: b, g + 1: c}, *({1 + j: b, g + 1: c} for j in range(g))]
    multiplicity = [1, *sizes]
    multiplicity[1 + k] -= 1
    present = [j for j in range(g + 1) if multiplicity[j]]
    sums = []
    for j0 in present:
        scores = {
            j: sum((x * weights[i][i1] * y for i, x in rows[j0].items() for i1, y in rows[j].items()), Fraction(0))
            for j in present
        }
        if linear:
            total = sum(multiplicity[j] * scores[j] for j in present)
            if total == 0:
                raise SeparatrixError(
                    "The scores of linear attention sum to zero at these parameters, so it is not defined."
                )
            keys = [(multiplicity[j] * scores[j] * (1 if total > 0 else -1), Fraction(0), rows[j]) for j in present]
        else:
            keys = [(Fraction(multiplicity[j]), scores[j], rows[j]) for j in present]
        sums.append(_sum(n, g + 2, keys, tau, logs))
    return sums


def _sum(n: int, d: int, keys: list[tuple[Fraction, Fraction, dict[int, Fraction]]], tau: Fraction, logs: int) -> _Sum:
    """The sum of weight n^e (<row, y> - tau) over the keys (weight, e, row)."""
    forms: list[dict[Fraction, Fraction]] = [defaultdict(Fraction) for _ in range(d + 1)]
    for weight, e, row in keys:
        for i, value in row.items():
            forms[i][e] += weight * value
        forms[d][e] -= weight * tau
    D = lcm(*(q.denominator for form in forms for q in form.values()))
    exact = [tuple(sorted((int(q * D), e, 0) for e, q in form.items() if q)) for form in forms]
    constant = tuple((q, e, logs) for q, e, _ in exact.pop())
    top = max(e for _, e, _ in keys)

    def fixed(form: tuple[Term, ...]) -> int:
        return sum(q * power(n, e - top, logs, 256) for q, e, logs in form)

    values = [fixed(form) for form in (*exact, constant)]
    largest = max(abs(value) for value in values)
    *coefficients, constant_value = (value / largest for value in values)
    return _Sum(n, tuple(exact), constant, coefficients, -constant_value)
