r"""Order-k attention over too many tuples to sum: Taylor's polynomial, and a ball that contains its remainder.

With coordinates x_m = k_m / 2^(e_m), at most 1 in magnitude, and rho_l = scale q_l 2^(e_1,l + e_2,l + ...), a score is
s = sum_l rho_l x_1,l x_2,l ... and, by the multinomial theorem,

    sum_t s_t^p / p! v_t = sum_{|alpha| = p} rho^alpha / alpha!  prod_m  sum_j v_m,j x_m,j^alpha

where the sums over tokens are balls (see `moments`). For an odd degree g and m = g + 1, Taylor's theorem gives

    |exp(s) - sum_{p <= g} s^p / p!| <= s^m / m! exp(R),    R >= every score and 0,

and E = exp(R) sum_t s_t^m / m! is a sum of the same kind, of even powers, so that no terms cancel. By Hoelder's
inequality one can take R = prod_m max_j (sum_l |rho_l| |x_m,j,l|^(k-1))^(1/(k-1)). Let D~ and N~ be the sums of the
polynomial over the tuples, without and with the values as factors, c any number, and h >= |v_t - c| for all tuples.
Then

    Then sum_t exp(s_t) is within E of D~, and out = c + (N~ - c D~ + x) / (D~ + y) for some |x| <= E h and |y| <= E.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from flint import arb, arb_mat
from numpy.typing import NDArray

from separatrix.attention.checker import balls
from separatrix.attention.checker.moments import MomentSums, Split, sums_at
from separatrix.attention.checker.problem import Floats, Head, Span, finite
from separatrix.attention.checker.tuples import Answer

BITS = 128
"""The precision of midpoints in bits; the sums over tokens have about 45 bits."""


@dataclass(frozen=True)
class QueryRanges:
    """A query, and the range of tokens of each set that it attends."""

    vector: Floats
    spans: tuple[Span, ...]


def expansion_flops(head: Head, degree: int) -> float:
    """The approximate number of operations of `attend_expansion` for a degree."""
    d, columns = head.keys[0].shape[1], head.values[0].shape[1] + 1
    return sum(Split.best(d, degree, columns).flops(columns, len(key)) for key in head.keys)


def attend_expansion(head: Head, queries: Sequence[QueryRanges], degree: int) -> list[Answer]:
    """The answers to queries that each attend at least one tuple, by an expansion of odd degree."""
    assert degree % 2 == 1
    with balls.bits(BITS):
        sets = [_Set.of(head, m, [query.spans[m] for query in queries], degree) for m in range(len(head.keys))]
        known: dict[tuple[Span, ...], _Products] = {}
        answers = []
        for query in queries:
            if query.spans not in known:
                known = {query.spans: _products(sets, head, query.spans)}
            answers.append(_answer(head, query, sets, known[query.spans]))
        return answers


@dataclass(frozen=True)
class _Set:
    """A key set and its values divided by powers of two, the exponents of these powers, and the sums up to each
    boundary.

    `first` is the token at which the sums begin.
    """

    exponents: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first: int
    split: Split
    sums: dict[int, MomentSums]

    @staticmethod
    def of(head: Head, m: int, spans: Sequence[Span], degree: int) -> _Set:
        first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
        key = finite(f"keys[{m}]", head.keys[m][first:last])
        value = finite(f"values[{m}]", head.values[m][first:last])
        exponents, sizes = _exponents(key), _exponents(value)
        weights = np.hstack([head.seen[m][first:last, None], np.ldexp(value, -sizes)])
        split = Split.best(key.shape[1], degree, weights.shape[1])
        boundaries = [end - first for span in spans for end in span]
        x, w = (torch.from_numpy(np.ascontiguousarray(part.T)) for part in (np.ldexp(key, -exponents), weights))
        return _Set(exponents, sizes, first, split, sums_at(x, w, split, boundaries))


def _exponents(x: Floats) -> NDArray[np.int64]:
    """For each column the smallest integer e with all magnitudes at most 2^e; 0 for a column of zeros."""
    fractions, exponents = np.frexp(np.abs(x).max(0, initial=0.0))
    least: NDArray[np.int64] = exponents.astype(np.int64) - (fractions == 0.5)
    return least


_Products = tuple[list[list[arb]], list[list[arb]]]


def _products(sets: Sequence[_Set], head: Head, spans: Sequence[Span]) -> _Products:
    """The products over the key sets of the weighted sums and of the sums of the last degree (see `MomentSums`)."""
    sums = [
        key_set.sums[stop - key_set.first].balls(key_set.sums[start - key_set.first], key_set.split, count)
        for key_set, (start, stop), count in zip(sets, spans, head.counts(spans), strict=True)
    ]
    weighed, last = sums[0]
    for more_weighed, more_last in sums[1:]:
        weighed, last = (
            [[a * b for a, b in zip(p, q, strict=True)] for p, q in zip(mine, more, strict=True)]
            for mine, more in ((weighed, more_weighed), (last, more_last))
        )
    return weighed, last


def _answer(head: Head, query: QueryRanges, sets: Sequence[_Set], products: _Products) -> Answer:
    split, columns = sets[0].split, head.values[0].shape[1] + 1
    exponents = np.sum([key_set.exponents for key_set in sets], 0).tolist()
    rho = [
        arb(head.scale) * arb(q) * balls.power_of_two(e) for q, e in zip(query.vector.tolist(), exponents, strict=True)
    ]
    left = split.left.coefficients(rho[: split.left.width])
    right = split.right.coefficients(rho[split.left.width :])
    weighed, last = products
    sums = [arb(0)] * columns
    for i, part in enumerate(weighed):
        inner = _times(left[split.left.rows(i)], part)
        for at, gamma in enumerate(right[: split.right.count(split.degree - i)] if inner else []):
            sums = [x + gamma * y for x, y in zip(sums, inner[at * columns : (at + 1) * columns], strict=True)]
    above = arb(0)
    for i, part in enumerate(last):
        inner = _times(left[split.left.rows(i)], part)
        gammas = right[split.right.rows(split.degree + 1 - i)] if inner else []
        above += sum((gamma * x for gamma, x in zip(gammas, inner, strict=True)), arb(0))
    D, E = sums[0], balls.around(above.abs_upper() * _largest_score(head, query, sets, rho).exp())
    output = []
    for c, exponent in enumerate(np.sum([key_set.sizes for key_set in sets], 0).tolist()):
        N = sums[c + 1] * balls.power_of_two(exponent)
        values = _value_range(head, query.spans, c)
        middle, reach = values.mid(), values.rad()
        output.append(middle + (N - middle * D + E * reach) / (D + E))
    return Answer(output, (D + E).log())


def _times(row: list[arb], entries: list[arb]) -> list[arb]:
    """A row times a matrix; an empty list if either is empty."""
    if not entries:
        return []
    product_entries: list[arb] = (
        arb_mat(1, len(row), row) * arb_mat(len(row), len(entries) // len(row), entries)
    ).entries()
    return product_entries


def _value_range(head: Head, spans: Sequence[Span], column: int) -> arb:
    """A ball that contains the values of all tuples."""
    total = arb(1)
    for m, (start, stop) in enumerate(spans):
        attended = head.values[m][start:stop, column][head.seen[m][start:stop]]
        total *= arb(float(attended.min())).union(arb(float(attended.max())))
    return total


def _largest_score(head: Head, query: QueryRanges, sets: Sequence[_Set], rho: Sequence[arb]) -> arb:
    """R, by Hoelder's inequality. Sums in float64 have an error of at most 2^-40 of their value and 2^-1000 of the
    factors.
    """
    total = arb(1)
    power = len(sets)
    factors = np.array([balls.float_above(abs(r)) for r in rho])
    underflow = (1 + arb(float(factors.sum()))) * balls.power_of_two(-1000)
    for m, (key_set, (start, stop)) in enumerate(zip(sets, query.spans, strict=True)):
        x = np.ldexp(np.abs(head.keys[m][start:stop]), -key_set.exponents)
        largest = float((x**power @ factors).max())
        total *= (arb(largest) * (1 + balls.power_of_two(-40)) + underflow) ** (arb(1) / power)
    return total


def forecast_errors(head: Head, query: QueryRanges, degrees: Sequence[int]) -> list[tuple[float, float]]:
    """Estimates of the remainder's part in the radii of output and log-sum-exp, from a sample of the tuples.

    There is one pair for each degree. The estimates only choose the first degree to try; no proof depends on them.
    """
    rng = np.random.default_rng(0)
    product = head.scale * query.vector
    for m, (start, stop) in enumerate(query.spans):
        attended = np.flatnonzero(head.seen[m][start:stop]) + start
        product = product * head.keys[m][rng.choice(attended, 1 << 12)]
    scores = product.sum(1)
    reach = max(float(_value_range(head, query.spans, c).rad()) for c in range(head.values[0].shape[1]))
    errors = []
    with np.errstate(over="ignore"):
        largest, mean = np.exp(2 * np.abs(scores).max()), np.exp(scores).mean()
        for degree in degrees:
            error = float((scores ** (degree + 1)).mean() / math.factorial(degree + 1) * largest / mean)
            errors.append((error * reach, error))
    return errors
