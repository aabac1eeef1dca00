r"""Whether a mechanism fires on the paper's data, for each of the 2^d sign vectors: exactly, for d <= 16 and any n.

A query fires on y when

    sum_j W_j (<v_j, y> - tau) > 0

over its keys (or pairs of keys) j, since the weights W_j are not negative. The different queries and keys are few
(`tokens`), the sum is linear in y, and its coefficients are exact (`forms`). So the sums of all y are computed in
float64 at once. If a sum is so small that rounding might have changed its sign, the exact sign is computed, once for
each different sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation.forms import Factor, Form, evaluate, ratio, sign, times
from separatrix.separation.mechanisms import Mechanism
from separatrix.separation.tokens import AttentionSetting, Token, Tokens, class_sizes, threshold, tokens

__all__ = ["LARGEST_D", "fired_by_class", "projected_by_class", "sign_vectors"]

LARGEST_D = 16
"""The largest width whose 2^d sign vectors are enumerated."""
_DOUBTFUL = 1e-9

Masks = NDArray[np.bool_]
Vector = NDArray[np.float64]
Which = Literal[0, 1]


@dataclass(frozen=True)
class _Query:
    """The sum that decides whether one query fires.

    Attributes:
        n: the number of tokens.
        exact: the exact coefficient of each y_i.
        constant: the exact constant that is subtracted, tau times the sum of the weights.
        c: the coefficients in float64, divided by the sum of the weights.
        tau: the constant in float64, divided by the sum of the weights.
    """

    n: int
    exact: tuple[Form, ...]
    constant: Form
    c: Vector
    tau: float

    def fires(self, Y: Vector) -> Masks:
        """For each column of Y, whether the sum is positive, decided exactly."""
        excess = self.c @ Y - self.tau
        near = np.flatnonzero(np.abs(excess) <= _DOUBTFUL * (np.abs(self.c).sum() + self.tau))
        answer = np.asarray(excess > 0)
        if len(near):
            # Coordinates with equal coefficients contribute through the sum of their signs.
            groups: dict[frozenset[object], list[int]] = defaultdict(list)
            for i, form in enumerate(self.exact):
                groups[frozenset(form.items())].append(i)
            sums = np.stack([Y[members][:, near].sum(0) for members in groups.values()]).astype(np.int64)
            different, which = np.unique(sums, axis=1, return_inverse=True)
            forms = [self.exact[members[0]] for members in groups.values()]
            positive = [self._sign(forms, column.tolist()) > 0 for column in different.T]
            answer[near] = np.array(positive)[which.ravel()]
        return answer

    def _sign(self, forms: list[Form], sums: list[int]) -> int:
        total: dict[tuple[int, Factor], Fraction] = defaultdict(Fraction)
        for form, number in [*zip(forms, sums, strict=True), (self.constant, -1)]:
            for key, q in form.items():
                total[key] += number * q
        return sign(self.n, total)


def sign_vectors(d: int) -> Vector:
    """All sign vectors as columns, of shape (d, 2^d); bit i of the column's number is set where y_i = -1.

    >>> sign_vectors(2).tolist()
    [[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]
    """
    counter = np.arange(1 << d)
    return np.asarray(1.0 - 2.0 * ((counter[None, :] >> np.arange(d)[:, None]) & 1), dtype=np.float64)


def fired_by_class(setting: AttentionSetting, mechanism: Mechanism, which: Which) -> dict[int, Masks]:
    """Whether the network fires on each column of `sign_vectors`, for each class that j3 may be in.

    Args:
        setting: the setting, of width at most 16.
        mechanism: the mechanism of the network.
        which: 0 for D0, 1 for D1.

    Returns:
        A bool array of length 2^d for each class, counted from 0, that has a row.
    """
    Y = sign_vectors(_checked(setting))

    def fires(k: int) -> Masks:
        return np.asarray(np.stack([query.fires(Y) for query in _queries(setting, mechanism, which, k)]).any(0))

    return _by_class(setting, mechanism, fires)


def projected_by_class(setting: AttentionSetting, mechanism: Mechanism, which: Which) -> dict[int, Vector]:
    """The largest <c, y> over all queries, for each column y of `sign_vectors` and each class that j3 may be in.

    Args:
        setting: the setting, of width at most 16.
        mechanism: the mechanism of the network.
        which: 0 for D0, 1 for D1.

    Returns:
        A float64 array of length 2^d for each class, counted from 0, that has a row.
    """
    Y = sign_vectors(_checked(setting))

    def largest(k: int) -> Vector:
        return np.asarray(np.stack([query.c @ Y for query in _queries(setting, mechanism, which, k)]).max(0))

    return _by_class(setting, mechanism, largest)


def _by_class(
    setting: AttentionSetting, mechanism: Mechanism, compute: Callable[[int], NDArray[Any]]
) -> dict[int, NDArray[Any]]:
    """The result of compute(k) for each class k.

    For a symmetric mechanism it is computed for one class of each size, and exchanging signs gives the results of the
    others.
    """
    sizes = class_sizes(setting)
    classes = [k for k in range(len(sizes)) if sizes[k]]
    if not mechanism.symmetric:
        return {k: compute(k) for k in classes}
    first = {sizes[k]: k for k in reversed(classes)}
    known = {size: compute(k) for size, k in first.items()}
    return {k: known[sizes[k]][_exchanged(setting.d, 1 + k, 1 + first[sizes[k]])] for k in classes}


def _exchanged(d: int, i: int, j: int) -> NDArray[np.int64]:
    """The number of each sign vector after its signs i and j are exchanged.

    >>> _exchanged(2, 0, 1).tolist()
    [0, 2, 1, 3]
    """
    counter = np.arange(1 << d)
    differ = ((counter >> i) ^ (counter >> j)) & 1
    return np.asarray(counter ^ (differ << i) ^ (differ << j)) if i != j else counter


def _queries(setting: AttentionSetting, mechanism: Mechanism, which: Which, special: int) -> list[_Query]:
    data = tokens(setting, which, special)
    return [_query(setting, query, data, mechanism) for query in data.queries]


def _query(setting: AttentionSetting, query: Token, data: Tokens, mechanism: Mechanism) -> _Query:
    coefficients: list[dict[tuple[int, Factor], Fraction]] = [defaultdict(Fraction) for _ in query]
    total: dict[tuple[int, Factor], Fraction] = defaultdict(Fraction)
    for weighted in mechanism.weigh(query, data):
        for i, x in enumerate(weighted.value):
            for key, q in times(weighted.weight, weighted.count * x, weighted.unit).items():
                coefficients[i][key] += q
        for key, q in times(weighted.weight, Fraction(weighted.count)).items():
            total[key] += q
    if not any(total.values()):
        raise SeparatrixError(f"The weights of {mechanism.name} are all zero at these parameters: it is not defined.")
    tau = times(total, *threshold(setting))
    *numerators, last, weight = (value for value, _ in evaluate(setting.n, [*coefficients, tau, total]))
    c = np.array([float(ratio(value, weight)) for value in numerators])
    return _Query(setting.n, tuple(coefficients), tau, c, float(ratio(last, weight)))


def _checked(setting: AttentionSetting) -> int:
    if setting.d > LARGEST_D:
        raise ArgumentError("d", expected=f"at most {LARGEST_D} to enumerate the sign vectors", got=setting.d)
    return setting.d
