r"""Plans of the polynomial method from a bound R on the scores, independent of the data.

For |s| <= R let |P(s) - exp(s)| <= e exp(s), with e < 1 (see `minimax`), and tau = e / (1 + sqrt(1 - e^2)). Relative to
the product |v|_max of the values' largest magnitudes,

    |output - exact| / |v|_max <= 2 tau + 2 rho M / ((1 - e) exp(-R) - rho M),    M = sum_p |a_p| R^p,

where rho is the relative rounding of a sum over the tokens and the monomials (docs/derivations/bounded-attention.md).
The bound depends on R, d, the tolerance and, through rho, on the number of tokens and of summation steps, but not on
the data. R has to bound the sum of magnitudes scale sum_l |q_l k_1,l ...| as well; bounds on entries and Hoelder's
inequality bound this sum, too.

All of this is computed in float64, and the output is then rounded to its dtype, which adds an error of u (1 + the bound
above) |v|_max, where u is half the distance from 1 to the next number of the dtype. The output satisfies the tolerance
including this rounding; otherwise planning raises an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from separatrix.attention.arithmetic.assumptions import CONVERTED, POWER
from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.arithmetic.rounding import RoundingStep, Summation, expanded_sum
from separatrix.attention.bounds import ValueRange
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.minimax import RelativePolynomial, minimax
from separatrix.attention.near_linear.approximation.monomials import IndexSet, total_degree
from separatrix.attention.near_linear.backend import backend_of, summing
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.near_linear.cost import LARGEST_DEGREE, LARGEST_RANK
from separatrix.attention.near_linear.sums import Expansion
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError, SeparatrixError

Number = TypeVar("Number", float, Tensor)
"""One number, or a tensor of them."""

_TRUNCATION = 0.9
"""The part of the tolerance that truncation may use; the rest is for rounding."""
_ROUNDINGS = 1 << 15
"""The number of roundings of a token in a state for which a plan allows: some 10^8 tokens at once, or this number one
by one."""


@dataclass(frozen=True)
class BoundedPlan:
    """The polynomial that satisfies `tolerance`, relative to the values' magnitude, for all scores up to `radius`.

    `dtype` is the dtype of the outputs. The error of the polynomial is relative to exp.
    """

    order: int
    d: int
    radius: float
    tolerance: float
    dtype: torch.dtype
    polynomial: RelativePolynomial

    @property
    def degree(self) -> int:
        return self.polynomial.degree

    @property
    def rank(self) -> int:
        return math.comb(self.d + self.degree, self.degree)

    @property
    def index_set(self) -> IndexSet:
        return total_degree(self.d, self.degree)

    @cached_property
    def roundings(self) -> float:
        """The relative rounding error of a sum over tokens that the plan allows for any number of tokens."""
        return self.rounding(_ROUNDINGS)

    def rounding(self, of_tokens: int) -> float:
        """The relative rounding error of a sum whose tokens go through the given number of roundings in the states."""
        tokens = RoundingStep("the tokens are added up", of_tokens)
        return Summation((tokens, RoundingStep("all else", self._without_tokens))).gamma(torch.float64)

    @cached_property
    def _without_tokens(self) -> int:
        """The number of roundings in addition to the roundings of the tokens."""
        return self.summation(Summation(())).count()

    def summation(self, tokens: Summation) -> Summation:
        """The summation of key tuples and monomials; `tokens` is the summation of tokens."""
        return expanded_sum(tokens, self.order - 1, self.d, self.degree, self.rank)

    def crossover(self, heads: int = 1, *, is_causal: bool = False, device: torch.device | str = "cpu") -> int:
        """The length from which a layer with this plan is near-linear; shorter sequences use exact attention.

        The length depends only on shapes and on whether the C++ kernels are installed. It is computed for
        self-attention whose values have the dimension of the keys, as in a layer. A layer with ``method="polynomial"``,
        and its ``decode``, are near-linear at every length.

        Args:
            heads: The number of heads that are attended at once: those of the layer, times the batch size.
            is_causal: Whether the calls are causal.
            device: The device of the calls.

        Example:
            >>> plan = plan_bounded(3, 4, 1.0, 1e-3)
            >>> 1 < plan.crossover(heads=16, is_causal=True) < 4096
            True
        """
        from separatrix.attention.near_linear.bounded_attention import crossover  # imports this module

        if not is_whole(heads, low=1):
            raise ArgumentError("heads", expected="an integer >= 1", got=heads)
        return crossover(self, heads, is_causal, torch.device(device))

    def coefficients(self, device: torch.device | None = None) -> Tensor:
        """c_alpha (rank,) in float64."""
        index_set = self.index_set
        series = torch.tensor(self.polynomial.coefficients, dtype=torch.float64)
        coefficients = series[torch.from_numpy(index_set.degrees)] * torch.from_numpy(index_set.multinomials)
        return coefficients.to(device)

    @cached_property
    def _magnitude(self) -> float:
        """sum_p |a_p| R^p."""
        return self.polynomial.magnitude(self.radius)

    def relative_error(self, roundings: float) -> tuple[float, float]:
        """Truncation and rounding errors divided by |v|_max, for this relative rounding error; infinite if there is no
        bound.

        Both are errors in float64, before the output is rounded to its dtype.
        """
        error, rho = self.polynomial.error, roundings * self._magnitude * (1 + 2.0**-30)
        left = (1 - error) * math.exp(-self.radius) * (1 - 2.0**-30) - rho
        if left <= 0:
            return math.inf, math.inf
        truncation = 2 * error / (1 + math.sqrt(1 - error**2))
        return truncation * (1 + 2.0**-30), (2 * rho / left + 2.0**-51) * (1 + 2.0**-30)

    def total_error(self, roundings: float) -> float:
        """The total error divided by |v|_max, including the rounding of the output to its dtype."""
        error = sum(self.relative_error(roundings))
        return error + output_unit(self.dtype) * (1 + error)

    def certificate(self, roundings: float, magnitude: Tensor) -> Certificate:
        """The error bound for values the product of whose magnitudes is `magnitude`, with the shape of `per_query`.

        Outputs below the smallest normal number of their dtype are rounded to multiples of the smallest positive
        number, however small the values are; this is added to the relative error.
        """
        relative = self.relative_error(roundings)
        truncation, rounding, reached = self._errors(relative, magnitude)
        total = (truncation + rounding).masked_fill(~(reached <= torch.finfo(self.dtype).max), math.inf)
        worst = [number(part.max()) if part.numel() else 0.0 for part in (truncation, rounding, total)]
        return Certificate(worst[0], worst[1], worst[2], sum(relative) * (1 + 2.0**-30), total)

    def certificate_of_all(self, roundings: float, magnitude: float, device: torch.device) -> Certificate:
        """The error bound for all queries: `certificate` of one number, whose `per_query` is on a device."""
        relative = self.relative_error(roundings)
        truncation, rounding, reached = self._errors(relative, magnitude)
        total = truncation + rounding if reached <= torch.finfo(self.dtype).max else math.inf
        per_query = torch.tensor(total, dtype=torch.float64, device=device)
        return Certificate(truncation, rounding, total, sum(relative) * (1 + 2.0**-30), per_query)

    def _errors(self, relative: tuple[float, float], magnitude: Number) -> tuple[Number, Number, Number]:
        """The truncation error, rounding error with that of the output, and largest output, for this magnitude."""
        truncation, rounding = (part * magnitude if part < math.inf else magnitude + math.inf for part in relative)
        info = torch.finfo(self.dtype)
        reached = magnitude + truncation + rounding
        return truncation, rounding + output_unit(self.dtype) * reached + info.smallest_normal * info.eps, reached


def output_unit(dtype: torch.dtype) -> float:
    """The relative rounding error of an output; outputs in half types are first rounded to float32.

    >>> round(output_unit(torch.bfloat16), 5)
    0.00395
    """
    return CONVERTED * torch.finfo(dtype).eps / 2


@lru_cache(maxsize=256)
def plan_bounded(
    order: int, d: int, radius: float, tolerance: float, dtype: torch.dtype = torch.float64
) -> BoundedPlan:
    """The lowest degree that satisfies a relative tolerance for every score up to `radius`, with outputs in `dtype`.

    Raises:
        SeparatrixError: The dtype of the outputs has too few digits for the tolerance, or no degree satisfies it.

    Example:
        >>> plan = plan_bounded(3, 8, 1.0, 1e-3)
        >>> plan.degree, plan.rank
        (4, 495)
    """
    unit = output_unit(dtype)
    if tolerance <= unit * (1 + tolerance):
        rounded = unit / (1 - unit)
        expected = f"more than {rounded:.3g} of the values' magnitude, by which outputs in {dtype} are rounded"
        raise ArgumentError("tolerance", expected=expected, got=f"{tolerance:.3g}")
    target = _TRUNCATION * (tolerance - unit * (1 + tolerance))
    largest_error = target / (1 + target**2 / 4) if target < 2 else 1.0  # 2 tau = target
    # Every polynomial has M >= P(R) >= (1 - e) exp(R), so that rounding takes at least 2 rho exp(2 R).
    least_rho = Summation((RoundingStep("the tokens are added up", _ROUNDINGS),)).gamma(torch.float64)
    is_in_reach = math.log(2 * least_rho) + 2 * radius <= math.log(tolerance)
    # The degree is at least 1: a constant may satisfy the tolerance too, but weighs all tokens equally and has no
    # gradient.
    for degree in range(1, LARGEST_DEGREE + 1 if is_in_reach else 1):
        if math.comb(d + degree, degree) > LARGEST_RANK:
            break
        polynomial = minimax(degree, radius, largest_error)
        if polynomial is None:
            continue
        plan = BoundedPlan(order, d, radius, tolerance, dtype, polynomial)
        truncation, rounding = plan.relative_error(plan.roundings)
        if truncation <= target and plan.total_error(plan.roundings) <= tolerance:
            return plan
        if rounding > tolerance and truncation <= target:  # a higher degree does not reduce rounding
            break
    raise SeparatrixError(
        f"bound: scores up to {radius:.4g} at d = {d} need more than the largest rank of {LARGEST_RANK}, or more "
        f"digits than float64 has, to keep a relative tolerance of {tolerance:.3g} for all data, of which the rounding "
        f"of outputs to {dtype} takes {unit:.3g}: lower the bound, the dimension or the precision."
    )


def normalised(x: Tensor, order: int) -> Tensor:
    """x divided by the l_k norm of its last dimension, k = `order`: (sum_l |x_l|^k)^(1/k). A zero vector stays zero.

    For k vectors normalised in this way the magnitude of the sum of products is at most 1, by Hoelder's inequality.

    >>> normalised(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), 2)
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    # First divide by the largest entry (a zero vector by one), so that its k-th power neither over- nor underflows.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    largest = wide.detach().abs().amax(-1, keepdim=True)
    scaled = wide / torch.where(largest == 0, 1.0, largest)
    norms = scaled.abs().pow(order).sum(-1, keepdim=True)
    return (scaled / torch.where(largest == 0, 1.0, norms).pow(1 / order)).to(x.dtype)


def norm_slack(order: int, d: int, dtype: torch.dtype) -> float:
    """A bound on the excess over 1 of the l_k norm of a vector that was divided by its norm and rounded.

    The relative error of the k-th powers is `POWER` u, their sum adds d u, and the k-th root divides this by k and adds
    `POWER` u; the two divisions and the rounding to `dtype` add three roundings. The bound allows for twice that, in
    eps = 2 u.
    """
    narrow, wide = torch.finfo(dtype).eps, torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    return 2 * narrow + ((d + POWER) / order + POWER + 2) * wide


def largest_token(order: int, d: int, bound: float, norm: str, dtype: torch.dtype) -> float:
    """The largest allowed entry (norm "entries") or l_k norm (norm "order") of a token, for the bound in `dtype`.

    The bound itself, rounded to the dtype, does not exceed this limit, nor does a vector that was normalised to the
    bound.
    """
    return bound * (1 + (norm_slack(order, d, dtype) if norm == "order" else torch.finfo(dtype).eps))


def score_radius(order: int, d: int, bound: float, scale: float, norm: str, dtype: torch.dtype) -> float:
    """R >= |scale| sum_l |q_l k_1,l ...| for tokens within the bound; computed by products only."""
    most = largest_token(order, d, bound, norm, dtype)
    return abs(scale) * math.prod([most] * order) * (d if norm == "entries" else 1)


def expansion(plan: BoundedPlan, heads: int, scale: float, device: torch.device, bound: float = 1.0) -> Expansion:
    """The plan's polynomial in coordinates up to `bound`, balanced by powers of two; those of the query include the
    scale.
    """
    exponents = balanced_exponents(plan.order, bound, scale)
    ones = torch.ones(heads, plan.d, dtype=torch.float64, device=device)
    factors = tuple(ones * 2.0**exponent for exponent in exponents)
    sizes = (bound * abs(scale), *[bound] * (plan.order - 1))
    largest = tuple(factor * size for factor, size in zip(factors, sizes, strict=True))
    frame = Frame(torch.arange(plan.d, device=device), factors, None, largest, scale, plan.d, torch.float64)
    return Expansion(frame, plan.index_set, plan.coefficients(device), None)


def balanced_exponents(order: int, bound: float, scale: float) -> list[int]:
    """The exponents of the powers of two by which query and keys are multiplied; they sum to 0, so that no score
    changes.

    The exponents are computed in integer arithmetic, because queries on one machine may attend to states computed on
    another.

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


def sum_rounding(plan: BoundedPlan, call: Call) -> float:
    """The relative rounding of the sums of `bounded_attention`, from the shapes of its tokens."""
    adds = summing(backend_of(call), call, plan.rank, torch.float64)
    return plan.summation(adds.tokens(call.key_lengths)).gamma(torch.float64)


def refuse_values(values: ValueRange) -> None:
    """Raise a `SeparatrixError` if products of values, or sums of these over tuples, leave the range of float64."""
    if not values.in_range(torch.float64):
        raise SeparatrixError(
            f"values: products of the sets' largest magnitudes range from 2^{values.low:.0f} to, summed over tuples, "
            f"2^{values.high:.0f}; near-linear attention needs 2^-900 to 2^1022. Multiply the value sets by powers of "
            "two, or use exact attention."
        )


def check_reached(dtype: torch.dtype, reached: float) -> None:
    """Raise a `SeparatrixError` if outputs exceed the range of their dtype."""
    most = torch.finfo(dtype).max
    if not reached <= most:
        raise SeparatrixError(
            f"values: outputs reach {reached:.3g}, beyond {most:.3g}, the largest number of {dtype}. Use a wider type, "
            "or multiply the values by a power of two."
        )
