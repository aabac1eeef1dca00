r"""Plans a call: chooses the algorithm and its rank from the analysis of the call and a forecast of certified errors.

A plan is a pure function of the input and of constants that ship with the source. The recipes of total degree are
searched first, in the given basis and in a better one. A polynomial whose error is relative to exp, and an index set
shaped by the amplitudes, are searched only where they may save more time than the search takes.

**Chebyshev's moments.** For a degree g there is a Chebyshev polynomial for every even moment m below it (see
`remainder`), up to 60 of them, and computing one takes a millisecond. `moments_in_reach` computes lower bounds on the
forecasts of all of them at once, from the Chebyshev coefficients |c_j| that each polynomial omits, so that few
polynomials are computed. R is the bound on the scores of a query. Rounding is proportional to M = sum_p |a_p| R^p. The
coefficients below m are Taylor's, so M >= sum_{p<m} R^p / p!; and M >= P(R) >= exp(R) - R^m factor, where `factor` is
at most the part of the tolerance for truncation, if the polynomial satisfies it. The same holds of P' in place of P.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import Analysis, analyse, gradient_gamma, in_float32, sizes_of, turned
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas, key_powers
from separatrix.attention.near_linear.approximation.monomials import downward_closed, total_degree
from separatrix.attention.near_linear.approximation.remainder import (
    Polynomial,
    chebyshev,
    least_chebyshev,
    relative_minimax,
)
from separatrix.attention.near_linear.cost import (
    AFFORDABLE,
    LARGEST_DEGREE,
    LARGEST_RANK,
    WORTH_PLANNING,
    Cost,
    Shape,
    affordable_rank,
    basis_time,
    exact_cost,
    planning_time,
    recipe_cost,
    squares_may_pay,
)
from separatrix.attention.near_linear.exact_rounding import entries_of
from separatrix.attention.near_linear.forecast import LESS, SMALL_RADIUS, Forecast
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, MARGIN, in_reach, largest_relative_error
from separatrix.errors import ArgumentError, SeparatrixError

SMALLEST_SAVING = 3e7
"""The time, in the unit of `cost`, above which a polynomial whose error is relative to exp is searched for."""
NOTHING_TO_ATTEND = Plan("exact", None, None, None, 0.0, 0.0, 0.0, "there is nothing to attend")
"""The plan of a call without queries, or without keys to attend to."""


class Candidate(NamedTuple):
    """A recipe, and its cost for the call."""

    recipe: Recipe
    cost: Cost


@dataclass(frozen=True)
class PlannedCall:
    """The plan of a call, and the intermediate results of planning.

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
        forecast, candidate = find_polynomial(Forecast(analyse(call, differentiable)), tolerance, limit)
        if candidate is None and limit == math.inf:
            raise out_of_reach(forecast.analysis, tolerance)
        if candidate is not None and (limit == math.inf or candidate.cost.time < limit):
            plan = polynomial_plan(forecast, candidate, tolerance, exact)
            return PlannedCall(plan, exact, limit, forecast)
        dearer = f"every polynomial that was tried for {tolerance:.3g}: scores reach {forecast.analysis.radius:.3g}"
        if candidate is not None:
            dearer = f"the polynomial method at rank {candidate.recipe.index_set.rank}"
        why = f"at these lengths exact attention is cheaper than {dearer}"
        return PlannedCall(exact_plan(call, exact, why), exact, limit)


def search_limit(shape: Shape, wide: bool, windowed: bool, method: str) -> tuple[Cost, float, str]:
    """The cost of exact attention, the limit of `PlannedCall`, and why no polynomial is searched for; "" if one is.

    These results depend on sizes alone. `wide` says whether the call is in float64, and `windowed` whether a key set
    has a window.
    """
    exact = exact_cost(shape, wide)
    limit = exact.time if method == "auto" and exact.flops <= AFFORDABLE else math.inf
    if windowed or method == "exact":
        return exact, limit, "exact attention was requested"
    if limit < WORTH_PLANNING * planning_time(shape):
        return exact, limit, "at these lengths exact attention is cheaper than the search for a polynomial"
    return exact, limit, ""


def find_polynomial(forecast: Forecast, tolerance: float, limit: float = math.inf) -> tuple[Forecast, Candidate | None]:
    """Search for the cheapest polynomial that satisfies the tolerance, in the given basis and in a better basis.

    Args:
        forecast: The forecast for a call without windows, in the basis of its queries and keys.
        tolerance: The largest error of an entry of the output.
        limit: The longest time, in the unit of `cost`, that the polynomial may take.

    Returns:
        The forecast in the basis of the polynomial, and the polynomial with its cost; without a polynomial, the given
        forecast and None.
    """
    analysis = forecast.analysis
    rotated = turned(analysis, tolerance) if basis_time(analysis.shape) < limit else None
    forecasts = [forecast] if rotated is None else [forecast, Forecast(rotated)]
    # If no polynomial satisfies the tolerance for gradients, a polynomial that satisfies it for the output may be used.
    for output_only in (False, True) if analysis.differentiable and limit == math.inf else (False,):
        candidates = [(x, cheapest_recipe(x, tolerance, time_limit=limit, output_only=output_only)) for x in forecasts]
        kept = [(x, candidate) for x, candidate in candidates if candidate is not None]
        if kept:
            return min(kept, key=lambda pair: pair[1].cost.time)
    return forecast, None


def cheapest_recipe(
    forecast: Forecast,
    tolerance: float,
    least_degree: int = 0,
    time_limit: float = math.inf,
    output_only: bool = False,
) -> Candidate | None:
    """The cheapest recipe whose forecast satisfies the tolerance; None if no recipe does within the time limit.

    If gradients will be computed, their forecast must satisfy the tolerance too, unless `output_only`.
    """
    analysis = forecast.analysis
    if not analysis.radius <= LARGEST_RADIUS or not analysis.values.in_range(torch.float64):
        return None
    target, shape = MARGIN * tolerance, analysis.shape
    # A polynomial of degree 0 keeps a tolerance where scores are small, but has no gradient.
    least = max(least_degree, 1) if analysis.differentiable else least_degree
    candidate = total_degree_recipe(forecast, least, time_limit, target, output_only)
    if not analysis.differentiable:
        time = time_limit if candidate is None else candidate.cost.time
        if time > SMALLEST_SAVING:
            relative = relative_recipe(forecast, least_degree, affordable_rank(shape, time), target)
            if relative is not None and recipe_cost(shape, relative).time < time:
                candidate = Candidate(relative, recipe_cost(shape, relative))
        if not shape.is_causal and analysis.frame.width >= 2 and least_degree == 0:
            rank = LARGEST_RANK // 8 if candidate is None else candidate.recipe.index_set.rank
            shaped = shaped_recipe(forecast, target, rank)
            candidate = candidate if shaped is None else Candidate(shaped, recipe_cost(shape, shaped))
    forecast.forget_tuples()
    return candidate


def total_degree_recipe(
    forecast: Forecast, least: int, limit: float, target: float, output_only: bool
) -> Candidate | None:
    """The cheapest recipe of total degree whose forecast keeps the target; None if there is none.

    Args:
        forecast: The forecast of errors.
        least: The lowest degree that is tried.
        limit: The longest time that degrees which are tried may take, in the unit of `cost`.
        target: The largest forecast that is allowed.
        output_only: Whether the forecast for gradients may be above the target.
    """
    shape, best = forecast.analysis.shape, None
    for choices in column_choices(forecast.analysis):
        if choices != [0] and not squares_may_pay(shape, limit):
            break
        degree = forecast.next_degree(least, affordable_rank(shape, limit), target, choices[-1])
        while degree is not None:
            for recipe in _recipes(forecast, degree, target, output_only, choices):
                cost = recipe_cost(shape, recipe)
                if best is None or cost.time < limit:
                    best, limit = Candidate(recipe, cost), min(cost.time, limit)
            degree = forecast.next_degree(degree + 1, affordable_rank(shape, limit), target, choices[-1])
    return best


def column_choices(analysis: Analysis) -> list[list[int]]:
    """The numbers of columns of squared deviations to try first, and those to try next; gradients do not use any."""
    return [[0]] if analysis.differentiable else [[0], sorted({1, analysis.shape.d_v})]


def _recipes(
    forecast: Forecast, degree: int, target: float, output_only: bool, choices: Sequence[int]
) -> Iterator[Recipe]:
    """The recipes of a degree that keep the target, with as few columns of squared deviations as they need."""
    for columns in choices:
        for polynomial in polynomials(forecast, degree, target, output_only, columns):
            recipe = _recipe(forecast, polynomial, columns, target, output_only)
            if recipe is None:
                continue
            yield recipe
            if polynomial.moment <= degree:
                return
            break  # a column of squares may cost less than a moment beyond the degree


def polynomials(
    forecast: Forecast, degree: int, target: float, output_only: bool, columns: int
) -> Iterator[Polynomial]:
    """The polynomials of a degree: Taylor's; Chebyshev's with even moments, unless their error exceeds the target; and
    Taylor's with moments above the degree.
    """
    inside, *beyond = forecast.taylors(degree)
    yield inside
    for moment in moments_in_reach(forecast, degree, target, output_only, columns):
        yield chebyshev(degree, moment, forecast.analysis.radius)
    yield from beyond


def moments_in_reach(
    forecast: Forecast, degree: int, target: float, output_only: bool = False, columns: int = 0
) -> list[int]:
    """The moments of the Chebyshev polynomials of a degree that may satisfy the target in float64.

    All others are certain to have a forecast above the target. The moments are even and below the degree; if scores are
    so small that no moment can lower the bound, there are none.
    """
    analysis, R, rank = forecast.analysis, forecast.radii, forecast.rank(degree)
    moments = list(range(0, degree, 2)) if analysis.radius >= SMALL_RADIUS else []
    if not moments or not R.numel():
        return moments

    def column_of(numbers: Sequence[float]) -> Tensor:
        return torch.tensor(numbers, dtype=R.dtype, device=R.device).reshape(-1, 1, 1)

    least = [least_chebyshev(degree, m, analysis.radius) for m in moments]
    factors, slopes = (column_of(bounds) for bounds in zip(*least, strict=True))
    power = torch.stack([forecast.mean_power(m) for m in moments])
    spread = torch.stack([forecast.spread(m, columns) for m in moments])
    allowed, error = target / spread, factors * spread  # the largest factor within the target, or infinity
    exponents = column_of(moments)
    powers, e_R = R**exponents, torch.exp(R)
    terms = torch.cumprod(torch.stack([torch.ones_like(R), *(R / p for p in range(1, degree))]), 0).cumsum(0)
    below = torch.stack([terms[m - 1] if m else torch.zeros_like(R) for m in moments])  # sums R^p / p! over p < m
    magnitude = torch.fmax(below, e_R - powers * allowed)
    output = forecast.output_error(error, magnitude, degree, rank, torch.float64)
    if analysis.differentiable and not output_only:
        below = torch.stack([terms[m - 2] if m > 1 else torch.zeros_like(R) for m in moments])
        near = e_R - powers * allowed / forecast.reach - exponents * R ** (exponents - 1) * allowed
        rounding = gradient_gamma(analysis, degree, rank, torch.float64)
        output = forecast.gradient_error(
            output, factors * power, magnitude, slopes * power, torch.fmax(below, near), rounding
        )
    kept = numbers(LESS * output.amax((1, 2)) <= target)
    return [m for m, may_keep in zip(moments, kept, strict=True) if may_keep]


def _recipe(
    forecast: Forecast, polynomial: Polynomial, columns: int, target: float, output_only: bool
) -> Recipe | None:
    """The recipe of a polynomial in the narrowest dtype whose forecast keeps the target; None if none does."""
    if forecast.error(polynomial, torch.float64, output_only, columns) > target:
        return None
    dtype = torch.float64
    if not forecast.analysis.shape.is_causal:  # causal sums are always in float64, see `near_linear/causal`
        dtype = _dtype(forecast.analysis, forecast.error(polynomial, torch.float32, output_only, columns), target)
    index_set = total_degree(forecast.analysis.frame.width, polynomial.degree)
    return Recipe(index_set, polynomial, dtype, squares=columns)


def _dtype(analysis: Analysis, narrow: float, target: float) -> torch.dtype:
    """float32 if its forecast is within the target and nothing overflows or underflows, otherwise float64."""
    query = analysis.call.query
    keeps = narrow <= target and query.dtype != torch.float64 and in_float32(analysis)
    return torch.float32 if keeps and float32_products_are_float32(query.device.type) else torch.float64


def relative_recipe(forecast: Forecast, least: int, largest_rank: float, target: float) -> Recipe | None:
    """The recipe of lowest degree with an error relative to exp that keeps the target; None if there is none."""
    widest = forecast.analysis.values.widest
    largest_error = largest_relative_error(target / max(largest_number(widest), target))
    degree = max(least, 1)
    while forecast.may_keep(degree, largest_rank, target):
        polynomial = relative_minimax(degree, forecast.analysis.radius, largest_error)
        if polynomial is not None and polynomial.relative is not None:
            if polynomial.relative <= largest_error:
                return _recipe(forecast, polynomial, 0, target, True)
            if polynomial.relative > 2 * largest_error:
                break  # the rounding of the coefficients dominates, which no higher degree reduces
        degree += 1
    return None


def shaped_recipe(forecast: Forecast, target: float, rank: int) -> Recipe | None:
    """The recipe of the smallest index set shaped by the amplitudes that keeps the target; None if there is none.

    The sizes that are tried decrease from 3/4 of `rank` by factors of 3/4. Such a set can be cheaper only if some
    coordinates matter much less than others.
    """
    b = forecast.analysis.amplitudes
    if min(b) >= 0.25 * max(b) or sum(b) >= LARGEST_RADIUS:
        return None
    powers = key_powers(forecast.analysis.call, forecast.analysis.frame)
    alphas = greedy_alphas(b, min(rank, 1 << 14))
    alphas = alphas[alphas.sum(1) <= LARGEST_DEGREE]
    smallest, size = 0, min(rank - 1, len(alphas)) * 3 // 4
    while size >= 1 and forecast.shaped_error(alphas[:size], powers, torch.float64) <= target:
        smallest, size = size, size * 3 // 4
    if not smallest:
        return None
    index_set = downward_closed(alphas[:smallest])
    narrow = forecast.shaped_error(index_set.alphas, powers, torch.float32)
    return Recipe(index_set, None, _dtype(forecast.analysis, narrow, target), powers)


def polynomial_plan(forecast: Forecast, candidate: Candidate, tolerance: float, exact: Cost) -> Plan:
    analysis, recipe, cost = forecast.analysis, candidate.recipe, candidate.cost
    index_set = recipe.index_set
    if recipe.polynomial is None:
        assert recipe.key_powers is not None
        kind = f"{index_set.rank} multi-indices shaped by the amplitudes"
        error = forecast.shaped_error(index_set.alphas, recipe.key_powers, recipe.dtype)
    else:
        series = "Taylor" if recipe.polynomial.factor is None else f"Chebyshev, weight s^{recipe.polynomial.moment}"
        series = series if recipe.polynomial.relative is None else "minimax, relative to exp"
        kind = f"total degree {index_set.degree} ({series})"
        error = forecast.error(recipe.polynomial, recipe.dtype, True, recipe.squares)
    forecast.forget_tuples()
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
