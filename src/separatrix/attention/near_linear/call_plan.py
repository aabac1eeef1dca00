"""The plan of a checked call, from its own entries."""

from __future__ import annotations

import math

import torch

from separatrix.attention.call import Call
from separatrix.attention.dispatch.readable import check_readable
from separatrix.attention.near_linear.analysis import Analysis, analyse, turned
from separatrix.attention.near_linear.choice import choose, recipes, time_limit
from separatrix.attention.near_linear.cost import basis_time, planning_time
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.errors import ArgumentError


def plan_call(call: Call, tolerance: float, method: str) -> tuple[Analysis, Plan]:
    """Analyse a checked call, and choose the plan for it."""
    check_readable(call)
    windowed = call.positions.has_window
    differentiable = call.wants_gradient  # asked outside of `no_grad`, where no call wants one
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=call.positions.windows)
    with torch.no_grad():
        analysis = analyse(call, differentiable)
        if windowed or method == "exact":
            return analysis, choose(analysis, None, tolerance, "exact")
        limit = time_limit(analysis, method)
        recipe = None
        if limit >= planning_time(analysis.shape):
            analysis, recipe = find_polynomial(analysis, tolerance, limit)
        return analysis, choose(analysis, recipe, tolerance, method)


def find_polynomial(analysis: Analysis, tolerance: float, limit: float = math.inf) -> tuple[Analysis, Recipe | None]:
    """Search for the polynomial of the lowest rank that keeps the tolerance, in the given basis and in a better one.

    Args:
        analysis: The analysis of a call without windows, in the basis of its queries and keys.
        tolerance: The largest error of an entry of the output.
        limit: The longest time, in the unit of `cost`, that the polynomial may take.

    Returns:
        The analysis in the basis of the polynomial, and the polynomial; the given analysis and None if there is none.
    """
    other = turned(analysis, tolerance) if basis_time(analysis.shape) < limit else None
    analyses = [analysis] if other is None else [analysis, other]
    # Where no polynomial keeps the tolerance for gradients too, one that keeps it for the output may have to do.
    for output_only in (False, True) if analysis.differentiable and limit == math.inf else (False,):
        candidates = [(x, recipes(x, tolerance, time_limit=limit, output_only=output_only)) for x in analyses]
        kept = [(x, recipe) for x, recipe in candidates if recipe is not None]
        if kept:
            return min(kept, key=lambda pair: pair[1].index_set.rank)
    return analysis, None
