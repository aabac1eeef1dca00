"""Plans a call: chooses the algorithm and its rank from the analysis of the call and a sample of its scores.

A plan is a pure function of the input and of constants that ship with the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from separatrix.attention.arithmetic.device_reads import number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.bounds import InputBounds, input_bounds
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import Analysis, amplitudes, analyse, in_float32, sizes_of, turned
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.approximation.monomials import IndexSet, downward_closed, total_degree
from separatrix.attention.near_linear.approximation.remainder import (
    Polynomial,
    chebyshev,
    relative_minimax,
    taylor,
)
from separatrix.attention.near_linear.cost import (
    AFFORDABLE,
    LARGEST_DEGREE,
    LARGEST_RANK,
    WORTH_PLANNING,
    Cost,
    Shape,
    basis_time,
    certified_cost,
    exact_cost,
    moment_cost,
    planning_time,
)
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, MARGIN, in_reach, largest_relative_error
from separatrix.errors import ArgumentError, SeparatrixError

SMALLEST_SAVING = 3e7
"""The time, in the unit of `cost`, above which a polynomial whose error is relative to exp is looked for."""


def plan_call(call: Call, tolerance: float, method: str) -> tuple[InputBounds, Forecast | None, Plan]:
    """The bounds on the entries of a checked call, and the plan for it.

    The forecast is None if none was made: if exact attention was requested, or is so fast that no search for a
    polynomial is worthwhile.
    """
    windowed = call.positions.has_window
    differentiable = call.wants_gradient  # evaluated outside of `no_grad`, inside of which no call needs a gradient
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=call.positions.windows)
    with torch.no_grad():
        bounds, shape = input_bounds(call), sizes_of(call)
        if windowed or method == "exact":
            return bounds, None, exact_plan(call, bounds, "exact attention was asked for")
        limit = time_limit(call, shape, method)
        if limit < WORTH_PLANNING * planning_time(shape):
            why = "at these lengths exact attention is cheaper than the search for a polynomial"
            return bounds, None, exact_plan(call, bounds, why)
        forecast = Forecast(analyse(call, differentiable, bounds))
        forecast, recipe = find_polynomial(forecast, tolerance, limit)
        return bounds, forecast, choose(forecast, recipe, bounds, tolerance, method)


def find_polynomial(forecast: Forecast, tolerance: float, limit: float = math.inf) -> tuple[Forecast, Recipe | None]:
    """Search for the cheapest polynomial that satisfies the tolerance, in the given basis and in a better basis.

    Args:
        forecast: The forecast for a call without windows, in the basis of its queries and keys.
        tolerance: The largest error of an entry of the output.
        limit: The longest time, in the unit of `cost`, that the polynomial may take.

    Returns:
        The forecast in the basis of the polynomial, and the polynomial; without a polynomial, the given forecast and
        None.
    """
    analysis = forecast.analysis
    rotated = turned(analysis, tolerance) if basis_time(analysis.shape) < limit else None
    forecasts = [forecast] if rotated is None else [forecast, Forecast(rotated)]
    # If no polynomial satisfies the tolerance for gradients, a polynomial that satisfies it for the output may be used.
    for output_only in (False, True) if analysis.differentiable and limit == math.inf else (False,):
        candidates = [(x, recipes(x, tolerance, time_limit=limit, output_only=output_only)) for x in forecasts]
        kept = [(x, recipe) for x, recipe in candidates if recipe is not None]
        if kept:
            return min(kept, key=lambda pair: recipe_cost(analysis.shape, pair[1]).time)
    return forecast, None


def _polynomials(
    forecast: Forecast, degree: int, rank: int, target: float, output_only: bool, columns: int
) -> Iterator[Polynomial]:
    """Taylor's polynomial, and Chebyshev's with even weights, except those whose error exceeds the target."""
    yield taylor(degree)
    beyond = math.comb(forecast.analysis.frame.width + degree, degree + 1)
    if degree % 2 and not forecast.analysis.differentiable and beyond <= LARGEST_RANK:
        yield taylor(degree, beyond=True)
    for moment in forecast.moments_in_reach(degree, rank, target, output_only, columns):
        yield chebyshev(degree, moment, forecast.analysis.radius)


def time_limit(call: Call, shape: Shape, method: str) -> float:
    """The longest time that a polynomial may take: that of exact attention, if `auto` may choose it."""
    exact = exact_cost(shape, call.query.dtype == torch.float64)
    return exact.time if method == "auto" and exact.flops <= AFFORDABLE else math.inf


def recipes(
    forecast: Forecast,
    tolerance: float,
    least_degree: int = 0,
    time_limit: float = math.inf,
    output_only: bool = False,
) -> Recipe | None:
    """The cheapest recipe whose forecast satisfies the tolerance; None if no recipe does within the time limit.

    If gradients will be taken, their forecast must satisfy the tolerance too, unless `output_only`.
    """
    analysis = forecast.analysis
    if not analysis.radius <= LARGEST_RADIUS or not analysis.values.in_range(torch.float64):
        return None
    target, d = MARGIN * tolerance, analysis.frame.width
    if analysis.differentiable:
        least_degree = max(least_degree, 1)  # a constant keeps a tolerance where scores are small, and has no gradient
    candidate = _total_degree(forecast, target, least_degree, time_limit, output_only)
    if not analysis.differentiable:
        candidate = _relative(forecast, target, least_degree, time_limit, candidate)
    forecast.forget_samples()
    rank = LARGEST_RANK // 8 if candidate is None else candidate.index_set.rank
    free = not analysis.shape.is_causal and not analysis.differentiable
    if free and d >= 2 and least_degree == 0 and _uneven(analysis):
        index_set = _greedy(forecast, target, rank)
        if index_set is not None:
            narrow = forecast.greedy_error(index_set.alphas, torch.float32)
            return Recipe(index_set, None, _dtype(analysis, narrow, target), forecast.key_powers)
    return candidate


def _dtype(analysis: Analysis, narrow: float, target: float) -> torch.dtype:
    """float32 if its forecast is within the target and nothing overflows or underflows, otherwise float64."""
    given_wide = analysis.call.query.dtype == torch.float64
    keeps = narrow <= target and in_float32(analysis)
    keeps = keeps and float32_products_are_float32(analysis.call.query.device.type)
    return torch.float32 if keeps and not given_wide else torch.float64


def _kept(forecast: Forecast, polynomial: Polynomial, columns: int, target: float, output_only: bool) -> Recipe | None:
    """The recipe of a polynomial in the narrowest dtype whose forecast keeps the target; None if none does."""
    analysis, d = forecast.analysis, forecast.analysis.frame.width
    rank = math.comb(d + polynomial.degree, d)
    if forecast.error(polynomial, rank, torch.float64, output_only, columns) > target:
        return None
    dtype = torch.float64
    if not analysis.shape.is_causal:  # causal sums are always in float64, see `near_linear/causal`
        narrow = forecast.error(polynomial, rank, torch.float32, output_only, columns)
        dtype = _dtype(analysis, narrow, target)
    return Recipe(total_degree(d, polynomial.degree), polynomial, dtype, squares=columns)


def _total_degree(
    forecast: Forecast, target: float, least_degree: int, time_limit: float, output_only: bool = False
) -> Recipe | None:
    """The cheapest recipe of total degree whose forecast error is within the target."""
    analysis, d = forecast.analysis, forecast.analysis.frame.width
    best: Recipe | None = None
    for degree in range(least_degree, LARGEST_DEGREE + 1):
        rank = math.comb(d + degree, degree)
        if rank > LARGEST_RANK:
            break
        if certified_cost(analysis.shape, rank, False).time > time_limit:
            break  # even in float32, and higher degrees cost more time
        if forecast.least_rounding(degree, rank) > target:
            break
        for columns in _columns(analysis):
            polynomials = _polynomials(forecast, degree, rank, target, output_only, columns)
            kept = [_kept(forecast, polynomial, columns, target, output_only) for polynomial in polynomials]
            for recipe in kept:
                time = math.inf if recipe is None else recipe_cost(analysis.shape, recipe).time
                if time < time_limit or (best is None and time <= time_limit):
                    best, time_limit = recipe, time
            if any(recipe is not None for recipe in kept):
                break
    return best


def _columns(analysis: Analysis) -> list[int]:
    """How many columns of squared deviations to try, from the cheapest. The bounds on gradients do not use them."""
    return [0] if analysis.differentiable else sorted({0, 1, analysis.shape.d_v})


def _relative(
    forecast: Forecast, target: float, least_degree: int, time_limit: float, candidate: Recipe | None
) -> Recipe | None:
    """A recipe with an error relative to exp, if it costs less than the candidate; else the candidate.

    It takes milliseconds to make such a polynomial, so it is computed only if it may save more than that.
    """
    analysis, d = forecast.analysis, forecast.analysis.frame.width
    most = time_limit if candidate is None else recipe_cost(analysis.shape, candidate).time
    share = target / max(number(analysis.values.widest.max()), target)
    largest_error = largest_relative_error(share)
    degree = max(least_degree, 1)
    while most > SMALLEST_SAVING and degree <= LARGEST_DEGREE:
        rank = math.comb(d + degree, degree)
        if rank > LARGEST_RANK or certified_cost(analysis.shape, rank, False).time > most:
            break
        if forecast.least_rounding(degree, rank) > target:
            break
        polynomial = relative_minimax(degree, analysis.radius, largest_error)
        if polynomial is not None and polynomial.relative is not None:
            if polynomial.relative <= largest_error:
                recipe = _kept(forecast, polynomial, 0, target, True)
                cheaper = recipe is not None and recipe_cost(analysis.shape, recipe).time < most
                return recipe if cheaper else candidate
            if polynomial.relative > 2 * largest_error:
                break  # because the coefficients are rounded, which a higher degree does not change
        degree += 1
    return candidate


def recipe_cost(shape: Shape, recipe: Recipe) -> Cost:
    """The cost of a recipe, including the sums of its certificate."""
    wide, polynomial, index_set = recipe.dtype == torch.float64, recipe.polynomial, recipe.index_set
    cost = certified_cost(shape, index_set.rank, wide)
    if polynomial is None or polynomial.relative is not None:
        return cost
    d, moment = index_set.dimension, polynomial.moment
    monomials = math.comb(d + moment - 1, moment) if d else 1
    extra = moment_cost(shape, monomials, recipe.squares, moment > index_set.degree, wide)
    return Cost(cost.flops + extra.flops, cost.bytes + extra.bytes, cost.time + extra.time)


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
    cost = recipe_cost(analysis.shape, recipe)
    if recipe.polynomial is None:
        kind = f"{index_set.rank} multi-indices shaped by the amplitudes"
        error = forecast.greedy_error(index_set.alphas, recipe.dtype)
    else:
        series = "Taylor" if recipe.polynomial.factor is None else f"Chebyshev, weight s^{recipe.polynomial.moment}"
        series = series if recipe.polynomial.relative is None else "minimax, relative to exp"
        kind = f"total degree {index_set.degree} ({series})"
        error = forecast.error(recipe.polynomial, index_set.rank, recipe.dtype, True, recipe.squares)
    forecast.forget_samples()
    fewer = exact.flops / cost.flops
    beside = f"{fewer:.3g} times fewer" if fewer >= 1 else f"{1 / fewer:.3g} times more"
    why = (
        f"scores are at most {analysis.radius:.3g} in magnitude, so rank {index_set.rank} keeps {tolerance:.3g} in "
        f"time linear in n, with {beside} flops than exact attention"
    )
    return Plan("polynomial", index_set.degree, index_set.rank, kind, error, cost.flops, cost.bytes, why, recipe)


def choose(forecast: Forecast, recipe: Recipe | None, bounds: InputBounds, tolerance: float, method: str) -> Plan:
    """The plan of the cheaper of a recipe, if there is one, and exact attention; an error if neither is affordable."""
    analysis = forecast.analysis
    wide = analysis.call.query.dtype == torch.float64
    exact = exact_cost(analysis.shape, wide)
    plan = None if recipe is None else polynomial_plan(forecast, recipe, tolerance, exact)
    if method == "polynomial":
        if plan is None:
            raise out_of_reach(analysis, tolerance)
        return plan
    if plan is not None and recipe is not None and recipe_cost(analysis.shape, recipe).time < exact.time:
        return plan
    if exact.flops > AFFORDABLE and method == "auto":
        if plan is not None:
            return plan
        raise out_of_reach(analysis, tolerance)
    if plan is None and time_limit(analysis.call, analysis.shape, method) < math.inf:
        why = (
            f"at these lengths exact attention is cheaper than a polynomial that keeps {tolerance:.3g}, as far as one "
            f"was looked for: scores reach {analysis.radius:.3g}"
        )
    elif plan is None:
        why = none_keeps(analysis, tolerance)
    else:
        why = f"at these lengths exact attention is cheaper than the polynomial method at rank {plan.rank}"
    return exact_plan(analysis.call, bounds, why)


def none_keeps(analysis: Analysis, tolerance: float) -> str:
    """The reason for exact attention where no polynomial keeps the tolerance, whatever it costs."""
    return f"no polynomial of rank up to {LARGEST_RANK} keeps {tolerance:.3g}: scores reach {analysis.radius:.3g}"


def exact_plan(call: Call, bounds: InputBounds, why: str) -> Plan:
    """The plan of exact attention, for the reason `why`."""
    exact = exact_cost(sizes_of(call), call.query.dtype == torch.float64)
    unit, magnitude = torch.finfo(call.query.dtype).eps, bounds.values.magnitude
    largest = number(magnitude.max()) if magnitude.numel() else 0.0
    return Plan("exact", None, None, None, 64 * unit * largest, exact.flops, exact.bytes, why)


def out_of_reach(analysis: Analysis, tolerance: float) -> SeparatrixError:
    """The error for a call that no algorithm can compute: the request, the reason, and what would work."""
    shape, B = analysis.shape, analysis.entry_bound()
    n = max(shape.query_length, *shape.key_lengths)
    return SeparatrixError(
        f"Attention of order {shape.order} over n = {n} tokens with entries up to B = {B:.4g} and tolerance "
        f"{tolerance:.3g} is out of reach: {in_reach(shape, B, abs(analysis.call.scale), lambda bound: tolerance)}"
    )
