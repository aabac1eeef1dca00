r"""The worst-case cost of the polynomial method: the degree that it needs, and the exponent log_n of its cost.

With entries up to B scores reach R = B^k. The Chebyshev series of exp on [-R, R], truncated at degree g, has an error
of at most

    tail(g) = 2 sum_{j > g} I_j(R) <= 2 exp(sqrt(h^2 + R^2) - h asinh(h / R)),    h = g + 1,

I_j the modified Bessel functions; the second bound is Chernoff's, min over t of exp(R cosh t - h t). The relative error
of the output is at most eps for every input if tail(g) (2 + eps) <= eps exp(-R), because a query may have all of its
scores at -R. The rank is C(d + g, g).

In the limit, with d = ln n, eps = 1/n and R = rho ln n, the degree is gamma ln n with

    sqrt(gamma^2 + rho^2) - gamma asinh(gamma / rho) + rho + 1 = 0,

and the cost is n to the power 1 + (1 + gamma) ln(1 + gamma) - gamma ln gamma.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from separatrix.attention.near_linear.cost import Shape, exact_cost, polynomial_cost


def relative_log_tolerance(log_n: float, order: int, bound: float) -> float:
    """The logarithm of the tolerance 1/n divided by B^(k-1), the largest product of values: Definition 1.2 bounds the
    values by B too.
    """
    return -log_n - (order - 1) * math.log(bound)


def _target(radius: float, log_tolerance: float) -> float:
    """The logarithm of the largest tail that satisfies the tolerance."""
    return log_tolerance - radius - float(np.logaddexp(math.log(2.0), log_tolerance))


def chernoff_degree(radius: float, log_tolerance: float) -> float:
    """The smallest real h = g + 1 whose Chernoff bound satisfies the tolerance, computed from ln n, so that n may be
    arbitrarily large.

    >>> round(chernoff_degree(1.0, math.log(1e-6)), 2)
    8.73
    """
    target = _target(radius, log_tolerance) - math.log(2.0)

    def excess(h: float) -> float:
        return math.hypot(h, radius) - h * math.asinh(h / radius) - target

    high = max(radius, 1.0)
    while excess(high) > 0:
        high *= 2
    if excess(0.0) <= 0:
        return 0.0
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    return float(brentq(excess, 0.0, high, rtol=1e-13))


def least_degree(radius: float, log_tolerance: float) -> int:
    """The smallest degree g whose Chebyshev tail satisfies the tolerance; the tail is computed as a sum, without
    subtraction.

    >>> from separatrix.attention.near_linear.worst_case import worst_case_degree
    >>> least_degree(1.0, math.log(1e-6)), worst_case_degree(1.0, 1e-6)
    (8, 8)
    """
    most = math.ceil(chernoff_degree(radius, log_tolerance))
    # The function ive is I_j exp(-R); the terms more than 60 after the last one are far below the resolution of
    # float64.
    from scipy.special import ive  # type: ignore[import-untyped]

    terms = ive(np.arange(most + 61), radius)
    tails = 2 * np.cumsum(terms[::-1])[::-1][1:]
    # If the tail underflows, the smallest number is an upper bound.
    logs = np.log(np.maximum(tails[: most + 1], np.finfo(np.float64).tiny)) + radius
    kept = logs <= _target(radius, log_tolerance)
    return int(np.argmax(kept)) if kept.any() else most


def polynomial_exponent(log2_n: int, order: int, bound: float) -> tuple[int, float, float]:
    """The degree, log_n of the rank, and log_n of the flops, at d = ceil(ln n) and tolerance 1/n."""
    log_n = log2_n * math.log(2.0)
    d = math.ceil(log_n)
    degree = least_degree(bound**order, relative_log_tolerance(log_n, order, bound))
    rank = math.comb(d + degree, degree)
    flops = polynomial_cost(_shape(log2_n, order), rank, True).flops
    return degree, math.log(rank) / log_n, math.log(flops) / log_n


def exact_exponent(log2_n: int, order: int) -> float:
    """log_n of the flops of exact attention, which exceeds the order because of the factor 4 d."""
    return math.log(exact_cost(_shape(log2_n, order), True).flops) / (log2_n * math.log(2.0))


def _shape(log2_n: int, order: int) -> Shape:
    d = math.ceil(log2_n * math.log(2.0))
    return Shape(1, 2**log2_n, (2**log2_n,) * (order - 1), d, d)


def border(below: Callable[[float], bool], low: float, high: float, steps: int = 40) -> float:
    """The point between `low` and `high` at which a condition that holds at `low` begins to fail, found by
    bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def entropy(gamma: float) -> float:
    """(1 + gamma) ln(1 + gamma) - gamma ln gamma: ln C(d + g, g) is at most this times d, for g = gamma d.

    >>> round(entropy(1.0), 6), math.log(math.comb(20, 10)) <= 10 * entropy(1.0)
    (1.386294, True)
    """
    return (1 + gamma) * math.log1p(gamma) - gamma * math.log(gamma) if gamma > 0 else 0.0


def limit_exponent(rho: float) -> float:
    """The limit of the exponent as n grows with B^k = rho ln n.

    >>> round(limit_exponent(0.01), 2), round(limit_exponent(0.75), 2)
    (1.73, 3.01)
    """

    def excess(gamma: float) -> float:
        return math.hypot(gamma, rho) - gamma * math.asinh(gamma / rho) + rho + 1

    high = max(rho, 1.0)
    while excess(high) > 0:
        high *= 2
    from scipy.optimize import brentq

    return 1 + entropy(float(brentq(excess, 0.0, high, rtol=1e-13)))


def limit_border(order: int) -> float:
    """The ratio B / (ln n)^(1/k) at which the polynomial method costs n^k in the limit, as much as exact attention."""
    return border(lambda ratio: limit_exponent(ratio**order) < order, 1e-6, 4.0)


def long_exponent(log_n: float, order: int, bound: float) -> float:
    """An upper bound on log_n of the flops for any n, given as ln n: the degree is Chernoff's bound, and the rank the
    entropy bound.
    """
    d = math.ceil(log_n)
    degree = chernoff_degree(bound**order, relative_log_tolerance(log_n, order, bound))
    return 1 + (d * entropy(degree / d) + math.log(2.0 * (order * (d + 1) + 1))) / log_n
