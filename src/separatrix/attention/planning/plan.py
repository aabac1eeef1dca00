"""Chooses the algorithm and its rank from bounds on the entries and a sample of the scores, before any other work.

A plan is a forecast; only the certificate of the result is a promise. Everything here is a pure function of the input
and of constants that ship with the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from separatrix.attention.arithmetic.host import number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.planning.cost import AFFORDABLE, Cost, Shape, certified_cost, exact_cost, polynomial_cost
from separatrix.attention.planning.forecast import (
    Analysis,
    amplitudes,
    forecast,
    greedy_forecast,
    in_float32,
    least_error,
    least_rounding,
)
from separatrix.attention.planning.paper_rules import threshold
from separatrix.attention.polynomial.expanded import LARGEST_DEGREE, LARGEST_RANK
from separatrix.attention.polynomial.greedy import greedy_alphas
from separatrix.attention.polynomial.monomials import IndexSet, downward_closed, total_degree
from separatrix.attention.polynomial.products import expanded, expanded_total_degree
from separatrix.attention.polynomial.remainder import Polynomial, chebyshev, taylor
from separatrix.checks import is_whole, positive
from separatrix.errors import ArgumentError, SeparatrixError

_MARGIN = 0.9
"""The part of the tolerance that a forecast may take."""
_LARGEST_RADIUS = 50.0
"""The largest R that is tried: beyond it exp(2 R) times the precision of float64 is more than 1."""


@dataclass(frozen=True)
class Recipe:
    """What the polynomial method expands: the index set, its polynomial (None if not of total degree), the dtype."""

    index_set: IndexSet = field(repr=False)
    polynomial: Polynomial | None
    dtype: torch.dtype


@dataclass(frozen=True)
class Plan:
    """The algorithm chosen and what is expected of it.

    Attributes:
        method: "exact" or "polynomial", or "none" from `plan_shapes` where neither is in reach.
        degree: The degree of the polynomial; None for the other methods.
        rank: The number of its monomials, the size of the index set; None for the other methods.
        index_set: The shape of the index set, in words; None for the other methods.
        predicted_error: A forecast of the certified error, never a promise.
        flops: The flops of the products with the monomials, or with all keys and values.
        bytes: What is held beside inputs and outputs.
        why: One sentence that says why this algorithm was chosen.
    """

    method: str
    degree: int | None
    rank: int | None
    index_set: str | None
    predicted_error: float
    flops: float
    bytes: float
    why: str
    recipe: Recipe | None = field(repr=False, default=None, compare=False)


def _polynomials(degree: int, radius: float) -> Iterator[Polynomial]:
    """Taylor's, and Chebyshev's in every even weight below it, unless the scores are so small that none can win."""
    yield taylor(degree)
    if radius >= 0.25:
        yield from (chebyshev(degree, moment, radius) for moment in range(0, degree, 2))


def time_limit(analysis: Analysis, method: str) -> float:
    """The time beyond which no polynomial is looked for: that of exact attention, where it is `auto` and affordable."""
    exact = exact_cost(analysis.shape, analysis.call.query.dtype == torch.float64)
    return exact.time if method == "auto" and exact.flops <= AFFORDABLE else math.inf


def recipes(
    analysis: Analysis,
    tolerance: float,
    least_degree: int = 0,
    time_limit: float = math.inf,
    output_only: bool = False,
) -> Recipe | None:
    """The index set of the lowest rank whose forecast keeps the tolerance; None if none does in time.

    If gradients will be taken, their forecast has to keep it too, unless `output_only`.
    """
    if not analysis.radius <= _LARGEST_RADIUS or not analysis.values.in_range(torch.float64):
        return None
    target, d = _MARGIN * tolerance, analysis.frame.width
    if analysis.differentiable:
        least_degree = max(least_degree, 1)  # a constant keeps a tolerance where scores are small, and has no gradient
    polynomial, rank = _total_degree(analysis, target, least_degree, time_limit, output_only)
    free = not analysis.shape.is_causal and not analysis.differentiable
    if free and d >= 2 and least_degree == 0 and _uneven(analysis):
        index_set = _greedy(analysis, target, LARGEST_RANK // 8 if polynomial is None else rank)
        if index_set is not None:
            narrow = greedy_forecast(analysis, index_set.alphas, torch.float32)
            return Recipe(index_set, None, _dtype(analysis, narrow, target))
    if polynomial is None:
        return None
    if analysis.shape.is_causal:  # its sums are in float64 whatever the type, see `polynomial/causal`
        return Recipe(total_degree(d, polynomial.degree), polynomial, torch.float64)
    narrow = forecast(analysis, polynomial, rank, torch.float32, output_only)
    return Recipe(total_degree(d, polynomial.degree), polynomial, _dtype(analysis, narrow, target))


def _dtype(analysis: Analysis, narrow: float, target: float) -> torch.dtype:
    """float32 where its forecast keeps the target and nothing leaves its range, else float64."""
    given_wide = analysis.call.query.dtype == torch.float64
    keeps = narrow <= target and in_float32(analysis)
    keeps = keeps and float32_products_are_float32(analysis.call.query.device.type)
    return torch.float32 if keeps and not given_wide else torch.float64


def _total_degree(
    analysis: Analysis, target: float, least_degree: int, time_limit: float, output_only: bool = False
) -> tuple[Polynomial | None, int]:
    """The polynomial of the lowest degree whose forecast keeps the target, and its rank."""
    d = analysis.frame.width
    for degree in range(least_degree, LARGEST_DEGREE + 1):
        rank = math.comb(d + degree, degree)
        if rank > LARGEST_RANK:
            break
        if certified_cost(analysis.shape, expanded_total_degree(d, degree), False).time > time_limit:
            break  # even in float32; and higher degrees cost more
        if least_rounding(analysis, degree, rank) > target:
            break
        if least_error(analysis, degree) > target:
            continue
        for polynomial in _polynomials(degree, analysis.radius):
            if forecast(analysis, polynomial, rank, torch.float64, output_only) <= target:
                return polynomial, rank
    return None, 0


def _uneven(analysis: Analysis) -> bool:
    """Whether some coordinates matter much less than others, so that a set shaped by the amplitudes may pay."""
    b = amplitudes(analysis)
    least, most, total = numbers(torch.stack([b.min(), b.max(), b.sum()]))
    return bool(least < 0.25 * most and total < _LARGEST_RADIUS)


def _greedy(analysis: Analysis, target: float, rank: int) -> IndexSet | None:
    """The smallest set shaped by the amplitudes, by steps of 3/4 below `rank`, whose forecast keeps the target."""
    alphas = greedy_alphas(numbers(amplitudes(analysis)), min(rank, 1 << 14))
    alphas = alphas[alphas.sum(1) <= LARGEST_DEGREE]
    best, size = 0, min(rank - 1, len(alphas)) * 3 // 4
    while size >= 1 and greedy_forecast(analysis, alphas[:size], torch.float64) <= target:
        best, size = size, size * 3 // 4
    return downward_closed(alphas[:best]) if best else None


def polynomial_plan(analysis: Analysis, recipe: Recipe, tolerance: float, exact: Cost) -> Plan:
    index_set = recipe.index_set
    cost = certified_cost(analysis.shape, expanded(index_set), recipe.dtype == torch.float64)
    if recipe.polynomial is None:
        kind = f"{index_set.rank} multi-indices shaped by the amplitudes"
        error = greedy_forecast(analysis, index_set.alphas, recipe.dtype)
    else:
        error = forecast(analysis, recipe.polynomial, index_set.rank, recipe.dtype, output_only=True)
        series = "Taylor" if recipe.polynomial.factor is None else f"Chebyshev, weight s^{recipe.polynomial.moment}"
        kind = f"total degree {index_set.degree} ({series})"
    fewer = exact.flops / cost.flops
    beside = f"{fewer:.3g} times fewer" if fewer >= 1 else f"{1 / fewer:.3g} times more"
    why = (
        f"scores are at most {analysis.radius:.3g} in magnitude, so rank {index_set.rank} keeps {tolerance:.3g} in "
        f"time linear in n, with {beside} flops than exact attention"
    )
    return Plan("polynomial", index_set.degree, index_set.rank, kind, error, cost.flops, cost.bytes, why, recipe)


def choose(analysis: Analysis, recipe: Recipe | None, tolerance: float, method: str) -> Plan:
    """The plan of the cheaper of a recipe, if there is one, and exact attention; an error if neither is affordable."""
    wide = analysis.call.query.dtype == torch.float64
    exact = exact_cost(analysis.shape, wide)
    plan = None if recipe is None else polynomial_plan(analysis, recipe, tolerance, exact)
    if method == "polynomial":
        if plan is None:
            raise out_of_reach(analysis, tolerance)
        return plan
    if plan is not None and recipe is not None:
        cost = certified_cost(analysis.shape, expanded(recipe.index_set), recipe.dtype == torch.float64)
        if cost.time < exact.time:
            return plan
    if exact.flops > AFFORDABLE and method == "auto":
        if plan is not None:
            return plan
        raise out_of_reach(analysis, tolerance)
    if method == "exact":
        why = "exact attention was asked for"
    elif plan is None and time_limit(analysis, method) < math.inf:
        why = (
            f"at these lengths exact attention is cheaper than a polynomial that keeps {tolerance:.3g}, as far as one "
            f"was looked for: scores reach {analysis.radius:.3g}"
        )
    elif plan is None:
        why = f"no polynomial of rank up to {LARGEST_RANK} keeps {tolerance:.3g}: scores reach {analysis.radius:.3g}"
    else:
        why = f"at these lengths exact attention is cheaper than the polynomial method at rank {plan.rank}"
    return exact_plan(analysis, why)


def exact_plan(analysis: Analysis, why: str) -> Plan:
    """The plan of exact attention, for the reason `why`."""
    exact = exact_cost(analysis.shape, analysis.call.query.dtype == torch.float64)
    unit = torch.finfo(analysis.call.query.dtype).eps
    largest = number(analysis.values.magnitude.max()) if analysis.values.magnitude.numel() else 0.0
    return Plan("exact", None, None, None, 64 * unit * largest, exact.flops, exact.bytes, why)


def out_of_reach(analysis: Analysis, tolerance: float) -> SeparatrixError:
    """The error for a call that no algorithm can compute: what was asked, why it is out of reach, what would work."""
    shape, B = analysis.shape, analysis.entry_bound()
    n = max(shape.query_length, *shape.key_lengths)
    return SeparatrixError(
        f"Attention of order {shape.order} over n = {n} tokens with entries up to B = {B:.4g} and tolerance "
        f"{tolerance:.3g} is out of reach: {_in_reach(shape, B, abs(analysis.call.scale), lambda bound: tolerance)}"
    )


def _in_reach(shape: Shape, B: float, scale: float, tolerance_at: Callable[[float], float]) -> str:
    """Why the near-linear method is out of reach for entries up to B, and exact attention may be; what would work.

    `tolerance_at` gives the allowed error relative to the values' magnitude, for entries up to a bound.
    """
    n = max(shape.query_length, *shape.key_lengths)

    highest = _highest_degree(shape.d)

    def radius_at(bound: float) -> float:
        """The largest score for entries up to `bound`; infinite where that is no float."""
        log = shape.order * math.log(bound) if bound else -math.inf
        return scale * shape.d * math.exp(log) if log < 700 else math.inf

    def is_in_reach(bound: float, looser: float = 1.0) -> bool:
        """Whether the highest degree that is tried keeps the tolerance in the worst case: a lower one errs by more."""
        return _keeps(highest, radius_at(bound), looser * tolerance_at(bound))

    low, high = 0.0, B
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if is_in_reach(middle) else (low, middle)
    looser = 1.0
    while looser * tolerance_at(B) < 1 and not is_in_reach(B, looser):
        looser *= 10
    tolerance = looser * tolerance_at(B)
    other = "no tolerance below 1 at this bound"
    if tolerance < 1:
        other = f"a tolerance of {tolerance:.1g}, relative to the values' magnitude"
    exact = exact_cost(shape, False).flops
    exactly = ", or exact attention, which is in reach"
    if exact > AFFORDABLE:
        exactly = f", or exact attention at n <= {int(n * (AFFORDABLE / exact) ** (1 / shape.order))}"
    rank = worst_case_rank(shape.d, radius_at(B), tolerance_at(B))
    return (
        f"the near-linear algorithm would take rank {rank:.3g} (at most {LARGEST_RANK} is tried), and exact "
        f"attention {exact:.3g} flops (up to {AFFORDABLE:.0e} are started without being asked for by name). Theorems "
        f"1.3 and 1.4 of Alman and Song put the border at B = (ln n)^(1/k) = {threshold(n, shape.order):.3g}. What "
        f"would work at d = {shape.d}, whatever the entries: B <= {low:.3g} at this tolerance, or {other}{exactly}."
    )


def worst_case_degree(radius: float, tolerance: float) -> int | None:
    """The degree that keeps the tolerance, relative to the values' magnitude, for any scores up to `radius`."""
    if radius > _LARGEST_RADIUS:
        return None
    return next((degree for degree in range(LARGEST_DEGREE + 1) if _keeps(degree, radius, tolerance)), None)


def _keeps(degree: int, radius: float, tolerance: float) -> bool:
    """Whether a polynomial of this degree keeps the tolerance in the worst case."""
    if radius > _LARGEST_RADIUS:
        return False
    at = torch.tensor([radius], dtype=torch.float64)
    error = taylor(degree).factors(at).item() * radius ** (degree - degree % 2)
    if radius >= 0.25:
        error = min(error, chebyshev(degree, 0, radius).factor or math.inf)
    smallest = math.exp(-radius) - error
    return smallest > 0 and 2 * error / smallest <= tolerance


def _highest_degree(d: int) -> int:
    """The highest degree that is tried in d dimensions."""
    return max(g for g in range(LARGEST_DEGREE + 1) if math.comb(d + g, g) <= LARGEST_RANK)


def worst_case_rank(d: int, radius: float, tolerance: float) -> float:
    """C(d + g, g) for the degree g of the worst case; infinity where no degree up to the largest is enough."""
    degree = worst_case_degree(radius, tolerance)
    return math.inf if degree is None else float(math.comb(d + degree, degree))


def check_tolerance(tolerance: float) -> float:
    """The tolerance as a float; an `ArgumentError` unless it is a positive finite number."""
    return positive("tolerance", tolerance)


def _short(rank: int) -> str:
    """A rank that may have hundreds of digits."""
    return str(rank) if rank < 10**9 else f"some 10^{math.floor(math.log10(rank))}"


def _to_the(base: float, exponent: int) -> float:
    """A power of a number that is not negative; infinity where it is beyond the range of floats."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def plan_shapes(n: int, d: int, bound: float, order: int, tolerance: float) -> Plan:
    """The plan for any n x d inputs with entries up to `bound`, values too, at scale 1/d (Definition 1.2).

    Nothing is known of the data, so the forecast is the worst case, and is kept. The method is "none" where neither
    near-linear nor exact attention is in reach; `why` then says what would bring one in reach.

    >>> plan_shapes(10**6, 8, 0.9, 3, 1e-3).rank
    495
    """
    for name, size, least, most in (("n", n, 1, 2**62), ("d", d, 1, 2**31), ("order", order, 2, 64)):
        if not is_whole(size, low=least, high=most):
            expected = f"an integer from {least} to {most if most < 2**62 else '2^62'}"
            got = f"about 2^{size.bit_length()}" if is_whole(size, low=2**31) else size
            raise ArgumentError(name, expected=expected, got=got)
    if not (isinstance(bound, (int, float)) and 0 <= bound < math.inf):
        raise ArgumentError("bound", expected="a finite number >= 0", got=bound)
    tolerance = check_tolerance(tolerance)
    shape = Shape(1, n, (n,) * (order - 1), d, d)
    radius, largest = _to_the(bound, order), _to_the(bound, order - 1)
    exact = exact_cost(shape, False)

    def relative(B: float) -> float:
        largest = _to_the(B, order - 1)
        return tolerance / largest if largest else math.inf

    degree = 0 if not largest else worst_case_degree(radius, relative(bound))
    border = threshold(n, order)
    side = f"B = {bound:.3g} is {'below' if bound < border else 'at or above'} (ln n)^(1/k) = {border:.3g}"
    why = f"{side}, and no degree up to {LARGEST_DEGREE} keeps {tolerance:.3g} in the worst case"
    if degree is not None:
        rank = math.comb(d + degree, degree)
        why = f"{side}, and the worst case takes rank {_short(rank)}, where at most {LARGEST_RANK} is tried"
        if rank <= LARGEST_RANK:
            cost = polynomial_cost(shape, expanded_total_degree(d, degree), True)
            if cost.time < exact.time:
                why = f"{side}, and rank {rank} keeps {tolerance:.3g} whatever the entries"
                kind = f"total degree {degree}"
                return Plan("polynomial", degree, rank, kind, tolerance, cost.flops, cost.bytes, why)
            why = f"{side}, and the worst case takes rank {rank}, more costly than exact attention at this length"
    if exact.flops > AFFORDABLE:
        why = f"neither method is in reach: {side}; {_in_reach(shape, bound, 1 / d, relative)}"
        return Plan("none", None, None, None, math.inf, exact.flops, exact.bytes, why)
    return Plan("exact", None, None, None, 0.0, exact.flops, exact.bytes, why)
