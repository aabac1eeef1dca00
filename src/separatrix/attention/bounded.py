r"""The polynomial method planned from a bound alone: for scores that cannot exceed R, whatever the data.

For |s| <= R a polynomial P of degree g is within e of exp, uniformly. Every one of N tuples then weighs at least
exp(-R) - e in the computed denominator, and the identity of `certificate` gives, relative to the product |v|_max of
the values' largest magnitudes,

    |output - exact| / |v|_max <= (2 e + 2 rho M) / (exp(-R) - e - rho M),    M = sum_p |a_p| R^p,

rho the relative rounding of a sum over the tokens seen and the monomials. It depends on R, d, the tolerance, and, by
rho alone, on how many tokens were added up in how many steps: no look at the data. R has to bound the sum of
magnitudes scale sum_l |q_l k_1,l ...| too, as bounds on entries and Hoelder's inequality do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from separatrix.attention.certificate import Certificate
from separatrix.attention.cost import LARGEST_DEGREE, LARGEST_RANK
from separatrix.attention.frame import Frame
from separatrix.attention.monomials import IndexSet, total_degree
from separatrix.attention.polynomial import Expansion
from separatrix.attention.remainder import Polynomial, chebyshev, taylor
from separatrix.errors import ArgumentError, SeparatrixError

_TRUNCATION = 0.9
"""The part of the tolerance that truncation may take; the rest is left to rounding."""
_ROUNDINGS = 1 << 15
"""On the way into a state, that a plan allows for: some 10^8 tokens in one go, or so many one by one."""
_LARGEST_RADIUS = 30.0
"""Beyond it exp(2 R) leaves no digits of float64."""


@dataclass(frozen=True)
class BoundedPlan:
    """Which polynomial keeps `tolerance`, relative to the values' magnitude, for all scores up to `radius`.

    `error` is that of the polynomial, uniform on [-radius, radius].
    """

    order: int
    d: int
    radius: float
    tolerance: float
    polynomial: Polynomial
    error: float

    @property
    def degree(self) -> int:
        return self.polynomial.degree

    @property
    def rank(self) -> int:
        return math.comb(self.d + self.degree, self.degree)

    @property
    def index_set(self) -> IndexSet:
        return total_degree(self.d, self.degree)

    def relative_error(self, roundings: float) -> tuple[float, float]:
        """Truncation and rounding over |v|_max, for sums with that relative rounding; infinite if nothing is proved."""
        magnitude = float(self.polynomial.magnitude(torch.tensor([self.radius], dtype=torch.float64)))
        rho = roundings * magnitude * (1 + 2.0**-30)
        left = (math.exp(-self.radius) - self.error) * (1 - 2.0**-30) - rho
        if left <= 0:
            return math.inf, math.inf
        return 2 * self.error / left * (1 + 2.0**-30), (2 * rho / left + 2.0**-51) * (1 + 2.0**-30)

    def certificate(self, roundings: float, magnitude: float, out: torch.dtype, like: Tensor) -> Certificate:
        """The promise for values whose magnitudes multiply to `magnitude`, given in the dtype `out`."""
        truncation, rounding = (part * magnitude for part in self.relative_error(roundings))
        info = torch.finfo(out)
        rounding = (
            rounding + 1.01 * info.eps / 2 * (magnitude + truncation + rounding) + info.smallest_normal * info.eps
        )
        total = truncation + rounding if magnitude + truncation + rounding <= info.max else math.inf
        lse = sum(self.relative_error(roundings)) * (1 + 2.0**-30)
        return Certificate(truncation, rounding, total, lse, like.new_full((), total, dtype=torch.float64))


@lru_cache(maxsize=256)
def plan_bounded(order: int, d: int, radius: float, tolerance: float) -> BoundedPlan:
    """The lowest degree that keeps a relative tolerance for every score up to `radius`; an error if none does.

    >>> plan = plan_bounded(3, 8, 1.0, 1e-3)
    >>> plan.degree, plan.rank
    (5, 1287)
    """
    at = torch.tensor([radius], dtype=torch.float64)
    target = _TRUNCATION * tolerance
    # From degree 1 on: a constant may keep the tolerance too, but weighs all tokens alike and has no gradient.
    for degree in range(1, LARGEST_DEGREE + 1 if radius <= _LARGEST_RADIUS else 1):
        if math.comb(d + degree, degree) > LARGEST_RANK:
            break
        candidates = [taylor(degree)] if radius < 0.25 else [taylor(degree), chebyshev(degree, 0, radius)]
        for candidate in candidates:
            error = float(candidate.factors(at)) * radius**candidate.moment * (1 + 2.0**-40)
            plan = BoundedPlan(order, d, radius, tolerance, candidate, error)
            roundings = 1.01 * (_ROUNDINGS + plan.rank) * 2.0**-53
            if plan.relative_error(0.0)[0] <= target and sum(plan.relative_error(roundings)) <= tolerance:
                return plan
    raise SeparatrixError(
        f"bound: scores up to {radius:.4g} at d = {d} need more than the largest rank of {LARGEST_RANK}, or more "
        f"digits than float64 has, to keep a relative tolerance of {tolerance:.3g} whatever the data: lower the bound, "
        "the dimension or the precision."
    )


def normalised(x: Tensor, order: int) -> Tensor:
    """x over the l_k norm of its last dimension, k = `order`: (sum_l |x_l|^k)^(1/k). A zero vector stays zero.

    Of k vectors so normalised the sum of products is at most 1 in magnitude, by Hoelder's inequality.

    >>> normalised(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), 2)
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    # Divided by the largest entry first: its k-th power neither over- nor underflows. Zero is divided by one.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    largest = wide.detach().abs().amax(-1, keepdim=True)
    scaled = wide / torch.where(largest == 0, 1.0, largest)
    norms = scaled.abs().pow(order).sum(-1, keepdim=True)
    return (scaled / torch.where(largest == 0, 1.0, norms).pow(1 / order)).to(x.dtype)


def norm_slack(order: int, d: int, dtype: torch.dtype) -> float:
    """By how much the l_k norm of a vector can exceed 1 that was divided by it, in float32 at least, and then rounded.

    The norm errs by (d + k) u / k + 4 u, the division and the rounding to `dtype` by one unit each.
    """
    narrow, wide = torch.finfo(dtype).eps, torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    return 2 * narrow + (d / order + 8) * wide


def check_bound(name: str, bound: float) -> float:
    if not (isinstance(bound, (int, float)) and not isinstance(bound, bool) and 0 < bound < math.inf):
        raise ArgumentError(name, expected="a positive finite number", got=bound)
    return float(bound)


def expansion(plan: BoundedPlan, heads: int, scale: float, device: torch.device, bound: float = 1.0) -> Expansion:
    """The plan's polynomial in coordinates up to `bound`, brought together by powers of two; scale in the query's."""
    return expansion_of(plan.order, plan.d, plan.polynomial.coefficients, heads, scale, device, bound)


def expansion_of(
    order: int,
    d: int,
    series: Sequence[float],
    heads: int,
    scale: float,
    device: torch.device,
    bound: float = 1.0,
) -> Expansion:
    """The same of a polynomial sum_p series[p] s^p."""
    exponents = balanced_exponents(order, bound, scale)
    ones = torch.ones(heads, d, dtype=torch.float64, device=device)
    factors = tuple(ones * 2.0**exponent for exponent in exponents)
    sizes = (bound * abs(scale), *[bound] * (order - 1))
    largest = tuple(factor * size for factor, size in zip(factors, sizes, strict=True))
    frame = Frame(torch.arange(d, device=device), factors, None, largest, scale, d, torch.float64)
    index_set = total_degree(d, len(series) - 1)
    return Expansion(frame, index_set, _coefficients(index_set, series).to(device), None)


def _coefficients(index_set: IndexSet, series: Sequence[float]) -> Tensor:
    """c_alpha (rank,) in float64."""
    of_degrees = torch.tensor(series, dtype=torch.float64)
    return of_degrees[torch.from_numpy(index_set.alphas.sum(1))] * torch.from_numpy(index_set.multinomials())


def balanced_exponents(order: int, bound: float, scale: float) -> list[int]:
    """Of the powers of two by which query and keys are multiplied: they sum to 0, and no score changes.

    In whole numbers alone: states made on one machine are met by queries of another.

    >>> balanced_exponents(3, 1.0, 0.125), balanced_exponents(2, 1e10, 4e-20)
    ([2, -1, -1], [32, -32])
    """
    size = math.frexp(bound)[1]
    total = order * size + math.frexp(scale)[1]
    keys = [total * m // order - total * (m - 1) // order - size for m in range(1, order)]
    exponents = [-sum(keys), *keys]
    if max(map(abs, exponents)) > 1000:
        raise SeparatrixError(
            f"bound: {bound:.3g} at order {order} and scale {scale:.3g} leaves the range of float64: rescale the "
            "tokens."
        )
    return exponents
