"""Plans a call: chooses the algorithm and its rank from the analysis of the call and a sample of its scores.

A plan is a pure function of the input and of constants that ship with the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from separatrix.attention.arithmetic.host import number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import Analysis, amplitudes, analyse, in_float32, turned
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import IndexSet, downward_closed, total_degree
from separatrix.attention.near_linear.approximation.remainder import Polynomial, chebyshev, taylor
from separatrix.attention.near_linear.cost import (
    AFFORDABLE,
    Cost,
    basis_time,
    certified_cost,
    exact_cost,
    planning_time,
)
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.moments_in_reach import moments_in_reach
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.attention.near_linear.product_cost import (
    LARGEST_DEGREE,
    LARGEST_RANK,
    expanded,
    expanded_total_degree,
)
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, in_reach
from separatrix.errors import ArgumentError, SeparatrixError

_MARGIN = 0.9
"""The part of the tolerance that a forecast may take."""


def plan_call(call: Call, tolerance: float, method: str) -> tuple[Forecast, Plan]:
    """Analyse a checked call, and choose the plan for it."""
    windowed = call.positions.has_window
    differentiable = call.wants_gradient  # evaluated outside of `no_grad`, inside of which no call wants a gradient
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=call.positions.windows)
    with torch.no_grad():
        forecast = Forecast(analyse(call, differentiable))
        if windowed or method == "exact":
            return forecast, choose(forecast, None, tolerance, "exact")
        limit = time_limit(forecast.analysis, method)
        recipe = None
        if limit >= planning_time(forecast.analysis.shape):
            forecast, recipe = find_polynomial(forecast, tolerance, limit)
        return forecast, choose(forecast, recipe, tolerance, method)


def find_polynomial(forecast: Forecast, tolerance: float, limit: float = math.inf) -> tuple[Forecast, Recipe | None]:
    """Search for the polynomial of the lowest rank that keeps the tolerance, in the given basis and in a better one.

    Args:
        forecast: The forecast for a call without windows, in the basis of its queries and keys.
        tolerance: The largest error of an entry of the output.
        limit: The longest time, in the unit of `cost`, that the polynomial may take.

    Returns:
        The forecast in the basis of the polynomial, and the polynomial; the given forecast and None if there is none.
    """
    analysis = forecast.analysis
    rotated = turned(analysis, tolerance) if basis_time(analysis.shape) < limit else None
    forecasts = [forecast] if rotated is None else [forecast, Forecast(rotated)]
    # Where no polynomial keeps the tolerance for gradients too, one that keeps it for the output may have to do.
    for output_only in (False, True) if analysis.differentiable and limit == math.inf else (False,):
        candidates = [(x, recipes(x, tolerance, time_limit=limit, output_only=output_only)) for x in forecasts]
        kept = [(x, recipe) for x, recipe in candidates if recipe is not None]
        if kept:
            return min(kept, key=lambda pair: pair[1].index_set.rank)
    return forecast, None


def _polynomials(forecast: Forecast, degree: int, rank: int, target: float, output_only: bool) -> Iterator[Polynomial]:
    """Taylor's, and Chebyshev's in even weights, without those that are certain to miss the target."""
    by_taylor, moments = moments_in_reach(forecast, degree, rank, target, output_only)
    if by_taylor:
        yield taylor(degree)
    yield from (chebyshev(degree, moment, forecast.analysis.radius) for moment in moments)


def time_limit(analysis: Analysis, method: str) -> float:
    """The time beyond which no polynomial is looked for: that of exact attention, where it is `auto` and affordable."""
    exact = exact_cost(analysis.shape, analysis.call.query.dtype == torch.float64)
    return exact.time if method == "auto" and exact.flops <= AFFORDABLE else math.inf


def recipes(
    forecast: Forecast,
    tolerance: float,
    least_degree: int = 0,
    time_limit: float = math.inf,
    output_only: bool = False,
) -> Recipe | None:
    """The index set of the lowest rank whose forecast keeps the tolerance; None if none does in time.

    If gradients will be taken, their forecast has to keep it too, unless `output_only`.
    """
    analysis = forecast.analysis
    if not analysis.radius <= LARGEST_RADIUS or not analysis.values.in_range(torch.float64):
        return None
    target, d = _MARGIN * tolerance, analysis.frame.width
    if analysis.differentiable:
        least_degree = max(least_degree, 1)  # a constant keeps a tolerance where scores are small, and has no gradient
    polynomial, rank = _total_degree(forecast, target, least_degree, time_limit, output_only)
    forecast.forget_powers()
    free = not analysis.shape.is_causal and not analysis.differentiable
    if free and d >= 2 and least_degree == 0 and _uneven(analysis):
        index_set = _greedy(forecast, target, LARGEST_RANK // 8 if polynomial is None else rank)
        if index_set is not None:
            narrow = forecast.greedy_error(index_set.alphas, torch.float32)
            return Recipe(index_set, None, _dtype(analysis, narrow, target), forecast.key_powers)
    if polynomial is None:
        return None
    if analysis.shape.is_causal:  # its sums are in float64 whatever the type, see `near_linear/causal`
        return Recipe(total_degree(d, polynomial.degree), polynomial, torch.float64)
    narrow = forecast.error(polynomial, rank, torch.float32, output_only)
    return Recipe(total_degree(d, polynomial.degree), polynomial, _dtype(analysis, narrow, target))


def _dtype(analysis: Analysis, narrow: float, target: float) -> torch.dtype:
    """float32 where its forecast keeps the target and nothing leaves its range, else float64."""
    given_wide = analysis.call.query.dtype == torch.float64
    keeps = narrow <= target and in_float32(analysis)
    keeps = keeps and float32_products_are_float32(analysis.call.query.device.type)
    return torch.float32 if keeps and not given_wide else torch.float64


def _total_degree(
    forecast: Forecast, target: float, least_degree: int, time_limit: float, output_only: bool = False
) -> tuple[Polynomial | None, int]:
    """The polynomial of the lowest degree whose forecast keeps the target, and its rank."""
    analysis = forecast.analysis
    d = analysis.frame.width
    for degree in range(least_degree, LARGEST_DEGREE + 1):
        rank = math.comb(d + degree, degree)
        if rank > LARGEST_RANK:
            break
        if certified_cost(analysis.shape, expanded_total_degree(d, degree), False).time > time_limit:
            break  # even in float32; and higher degrees cost more
        if forecast.least_rounding(degree, rank) > target:
            break
        for polynomial in _polynomials(forecast, degree, rank, target, output_only):
            if forecast.error(polynomial, rank, torch.float64, output_only) <= target:
                return polynomial, rank
    return None, 0


def _uneven(analysis: Analysis) -> bool:
    """Whether some coordinates matter much less than others, so that a set shaped by the amplitudes may pay."""
    b = amplitudes(analysis)
    least, most, total = numbers(torch.stack([b.min(), b.max(), b.sum()]))
    return bool(least < 0.25 * most and total < LARGEST_RADIUS)


def _greedy(forecast: Forecast, target: float, rank: int) -> IndexSet | None:
    """The smallest set shaped by the amplitudes, by steps of 3/4 below `rank`, whose forecast keeps the target."""
    alphas = greedy_alphas(numbers(amplitudes(forecast.analysis)), min(rank, 1 << 14))
    alphas = alphas[alphas.sum(1) <= LARGEST_DEGREE]
    best, size = 0, min(rank - 1, len(alphas)) * 3 // 4
    while size >= 1 and forecast.greedy_error(alphas[:size], torch.float64) <= target:
        best, size = size, size * 3 // 4
    return downward_closed(alphas[:best]) if best else None


def polynomial_plan(forecast: Forecast, recipe: Recipe, tolerance: float, exact: Cost) -> Plan:
    analysis, index_set = forecast.analysis, recipe.index_set
    cost = certified_cost(analysis.shape, expanded(index_set), recipe.dtype == torch.float64)
    if recipe.polynomial is None:
        kind = f"{index_set.rank} multi-indices shaped by the amplitudes"
        error = forecast.greedy_error(index_set.alphas, recipe.dtype)
    else:
        error = forecast.error(recipe.polynomial, index_set.rank, recipe.dtype, output_only=True)
        series = "Taylor" if recipe.polynomial.factor is None else f"Chebyshev, weight s^{recipe.polynomial.moment}"
        kind = f"total degree {index_set.degree} ({series})"
    fewer = exact.flops / cost.flops
    beside = f"{fewer:.3g} times fewer" if fewer >= 1 else f"{1 / fewer:.3g} times more"
    why = (
        f"scores are at most {analysis.radius:.3g} in magnitude, so rank {index_set.rank} keeps {tolerance:.3g} in "
        f"time linear in n, with {beside} flops than exact attention"
    )
    return Plan("polynomial", index_set.degree, index_set.rank, kind, error, cost.flops, cost.bytes, why, recipe)


def choose(forecast: Forecast, recipe: Recipe | None, tolerance: float, method: str) -> Plan:
    """The plan of the cheaper of a recipe, if there is one, and exact attention; an error if neither is affordable."""
    analysis = forecast.analysis
    wide = analysis.call.query.dtype == torch.float64
    exact = exact_cost(analysis.shape, wide)
    plan = None if recipe is None else polynomial_plan(forecast, recipe, tolerance, exact)
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
        why = none_keeps(analysis, tolerance)
    else:
        why = f"at these lengths exact attention is cheaper than the polynomial method at rank {plan.rank}"
    return exact_plan(analysis, why)


def none_keeps(analysis: Analysis, tolerance: float) -> str:
    """The reason for exact attention where no polynomial keeps the tolerance, whatever it costs."""
    return f"no polynomial of rank up to {LARGEST_RANK} keeps {tolerance:.3g}: scores reach {analysis.radius:.3g}"


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
        f"{tolerance:.3g} is out of reach: {in_reach(shape, B, abs(analysis.call.scale), lambda bound: tolerance)}"
    )
