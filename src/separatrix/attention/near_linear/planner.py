"""Plans a call: chooses the algorithm and its rank from the analysis of the call and a sample of its scores.

A plan is a pure function of the input and of constants that ship with the source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from separatrix.attention.arithmetic.device_reads import largest_number
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import Analysis, analyse, sizes_of, turned
from separatrix.attention.near_linear.cost import (
    AFFORDABLE,
    LARGEST_RANK,
    WORTH_PLANNING,
    Cost,
    Shape,
    affordable_rank,
    basis_time,
    exact_cost,
    planning_time,
    recipe_cost,
)
from separatrix.attention.near_linear.exact_rounding import entries_of
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, MARGIN, in_reach
from separatrix.errors import ArgumentError, SeparatrixError

SMALLEST_SAVING = 3e7
"""The time, in the unit of `cost`, above which a polynomial whose error is relative to exp is searched for."""
NOTHING_TO_ATTEND = Plan("exact", None, None, None, 0.0, 0.0, 0.0, "there is nothing to attend")
"""The plan of a call without queries, or without keys to attend to."""


@dataclass(frozen=True)
class PlannedCall:
    """The plan of a call, and what was computed for it.

    Attributes:
        plan: The plan.
        exact: The cost of exact attention.
        limit: The longest time that a polynomial may take: that of exact attention, if `auto` may choose it.
        forecast: The forecast in the basis of the polynomial; None for a plan of exact attention.
    """

    plan: Plan
    exact: Cost
    limit: float
    forecast: Forecast | None = None


def plan_call(call: Call, tolerance: float, method: str) -> PlannedCall:
    """Plan a checked call."""
    windowed = call.positions.has_window
    differentiable = call.wants_gradient  # evaluated outside of `no_grad`, inside which no call needs a gradient
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=call.positions.windows)
    with torch.no_grad():
        shape = sizes_of(call)
        exact, limit, why = search_limit(shape, call.query.dtype == torch.float64, windowed, method)
        if why:
            return PlannedCall(exact_plan(call, exact, why), exact, limit)
        forecast = Forecast(analyse(call, differentiable))
        forecast, recipe = find_polynomial(forecast, tolerance, limit)
        if recipe is None and limit == math.inf:
            raise out_of_reach(forecast.analysis, tolerance)
        if recipe is not None and (limit == math.inf or recipe_cost(shape, recipe).time < limit):
            plan = polynomial_plan(forecast, recipe, tolerance, exact)
            return PlannedCall(plan, exact, limit, forecast)
        dearer = f"every polynomial that was tried for {tolerance:.3g}: scores reach {forecast.analysis.radius:.3g}"
        if recipe is not None:
            dearer = f"the polynomial method at rank {recipe.index_set.rank}"
        why = f"at these lengths exact attention is cheaper than {dearer}"
        return PlannedCall(exact_plan(call, exact, why), exact, limit)


def search_limit(shape: Shape, wide: bool, windowed: bool, method: str) -> tuple[Cost, float, str]:
    """The cost of exact attention, the limit of `PlannedCall`, and why no polynomial is searched for; "" if one is.

    They depend on sizes alone. `wide` says whether the call is in float64, and `windowed` whether a key set has a
    window.
    """
    exact = exact_cost(shape, wide)
    limit = exact.time if method == "auto" and exact.flops <= AFFORDABLE else math.inf
    if windowed or method == "exact":
        return exact, limit, "exact attention was requested"
    if limit < WORTH_PLANNING * planning_time(shape):
        return exact, limit, "at these lengths exact attention is cheaper than the search for a polynomial"
    return exact, limit, ""


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
        candidates = [(x, cheapest_recipe(x, tolerance, time_limit=limit, output_only=output_only)) for x in forecasts]
        kept = [(x, recipe) for x, recipe in candidates if recipe is not None]
        if kept:
            return min(kept, key=lambda pair: recipe_cost(analysis.shape, pair[1]).time)
    return forecast, None


def cheapest_recipe(
    forecast: Forecast,
    tolerance: float,
    least_degree: int = 0,
    time_limit: float = math.inf,
    output_only: bool = False,
) -> Recipe | None:
    """The cheapest recipe whose forecast satisfies the tolerance; None if no recipe does within the time limit.

    If gradients will be taken, their forecast must satisfy the tolerance too, unless `output_only`. Recipes of total
    degree are searched first; each of the others is searched only where it may cost less by more than its search does.
    """
    analysis = forecast.analysis
    if not analysis.radius <= LARGEST_RADIUS or not analysis.values.in_range(torch.float64):
        return None
    target, shape = MARGIN * tolerance, analysis.shape
    # A polynomial of degree 0 keeps a tolerance where scores are small, but has no gradient.
    least = max(least_degree, 1) if analysis.differentiable else least_degree
    candidate = forecast.total_degree(least, time_limit, target, output_only)
    if analysis.differentiable:
        forecast.sample.forget_tuples()
        return candidate
    time = time_limit if candidate is None else recipe_cost(shape, candidate).time
    if time > SMALLEST_SAVING:
        relative = forecast.relative(least_degree, affordable_rank(shape, time), target)
        if relative is not None and recipe_cost(shape, relative).time < time:
            candidate = relative
    if not shape.is_causal and analysis.frame.width >= 2 and least_degree == 0:
        rank = LARGEST_RANK // 8 if candidate is None else candidate.index_set.rank
        candidate = forecast.shaped(target, rank) or candidate
    forecast.sample.forget_tuples()
    return candidate


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
        error = forecast.error(recipe.polynomial, recipe.dtype, True, recipe.squares)
    forecast.sample.forget_tuples()
    fewer = exact.flops / cost.flops
    beside = f"{fewer:.3g} times fewer" if fewer >= 1 else f"{1 / fewer:.3g} times more"
    why = (
        f"scores are at most {analysis.radius:.3g} in magnitude, so rank {index_set.rank} keeps {tolerance:.3g} in "
        f"time linear in n, with {beside} flops than exact attention"
    )
    return Plan("polynomial", index_set.degree, index_set.rank, kind, error, cost.flops, cost.bytes, why, recipe)


def exact_plan(call: Call, exact: Cost, why: str) -> Plan:
    """The plan of exact attention, for the reason `why`."""
    return exact_plan_for(largest_number(entries_of(call).ends.largest), call.query.dtype, exact, why)


def exact_plan_for(largest: float, dtype: torch.dtype, exact: Cost, why: str) -> Plan:
    """The plan of exact attention of a call in `dtype` whose products of values are at most `largest` in magnitude."""
    return Plan("exact", None, None, None, 64 * torch.finfo(dtype).eps * largest, exact.flops, exact.bytes, why)


def out_of_reach(analysis: Analysis, tolerance: float) -> SeparatrixError:
    """The error for a call that no algorithm can compute: the request, the reason, and what would work."""
    shape, B = analysis.shape, analysis.entry_bound()
    n = max(shape.query_length, *shape.key_lengths)
    return SeparatrixError(
        f"Attention of order {shape.order} over n = {n} tokens with entries up to B = {B:.4g} and tolerance "
        f"{tolerance:.3g} is out of reach: {in_reach(shape, B, abs(analysis.call.scale), lambda bound: tolerance)}"
    )
