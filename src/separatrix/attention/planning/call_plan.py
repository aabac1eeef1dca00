"""The plan of a checked call, from its own entries."""

from __future__ import annotations

import math

import torch

from separatrix.attention.call import Call
from separatrix.attention.dispatch.readable import check_readable
from separatrix.attention.planning.choice import choose, recipes, time_limit
from separatrix.attention.planning.cost import basis_time, planning_time
from separatrix.attention.planning.forecast import Analysis, analyse, turned
from separatrix.attention.planning.plan import Plan
from separatrix.errors import ArgumentError


def plan_call(call: Call, tolerance: float, method: str) -> tuple[Analysis, Plan]:
    """Analyse a checked call, and choose the plan for it."""
    check_readable(call)
    windows = call.positions.windows
    windowed = any(window is not None for window in windows)
    differentiable = call.wants_gradient
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=windows)
    with torch.no_grad():
        analysis = analyse(call, differentiable)
        if windowed or method == "exact":
            return analysis, choose(analysis, None, tolerance, "exact")
        most = time_limit(analysis, method)
        if most < planning_time(analysis.shape):
            return analysis, choose(analysis, None, tolerance, method)
        other = turned(analysis, tolerance) if basis_time(analysis.shape) < most else None
        analyses = [analysis] if other is None else [analysis, other]
        # Where no polynomial keeps the tolerance for gradients too, one that keeps it for the output may have to do.
        for output_only in (False, True) if differentiable and most == math.inf else (False,):
            found = [(x, recipes(x, tolerance, time_limit=most, output_only=output_only)) for x in analyses]
            made = [(x, recipe) for x, recipe in found if recipe is not None]
            if made:
                analysis, recipe = min(made, key=lambda pair: pair[1].index_set.rank)
                return analysis, choose(analysis, recipe, tolerance, method)
        return analysis, choose(analysis, None, tolerance, method)
