"""Exact attention computes a bounded call if it is cheaper than the polynomial and has no larger error bound."""

from __future__ import annotations

from functools import lru_cache

import torch

from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.call import Call, Positions
from separatrix.attention.exact.error_bound import relative_bound
from separatrix.attention.near_linear.bounded_plan import BoundedPlan, sum_rounding
from separatrix.attention.near_linear.cost import Shape, exact_cost, polynomial_cost


def exact_dtype(plan: BoundedPlan, call: Call) -> torch.dtype | None:
    """The dtype in which exact attention computes a call whose scores are within the plan's radius; None if the
    polynomial computes it.

    The choice depends only on shapes and dtypes. The plan's certificate for the polynomial then also holds for exact
    attention: its error is at most as large, whatever the data, and its output is rounded to the same type.
    """
    query = call.query
    heads, length, d = query.shape
    shape = Shape(heads, length, call.key_lengths, d, call.values[0].shape[2], call.positions.is_causal)
    narrow = query.dtype != torch.float64 and float32_products_are_float32(query.device.type)
    for dtype in (torch.float32, torch.float64) if narrow else (torch.float64,):
        if _is_exact(plan, shape, dtype, query.device, call.positions.offset):
            return dtype
    return None


@lru_cache(maxsize=1024)
def _is_exact(plan: BoundedPlan, shape: Shape, dtype: torch.dtype, device: torch.device, offset: int) -> bool:
    """Whether exact attention in a dtype is cheaper than the polynomial and has no larger error bound."""
    near_linear = polynomial_cost(shape, plan.rank, True)
    if exact_cost(shape, dtype == torch.float64).time >= near_linear.time:
        return False
    zero = torch.zeros((), dtype=dtype, device=device)
    keys, values = (
        tuple(zero.expand(shape.heads, n, width) for n in shape.key_lengths) for width in (shape.d, shape.d_v)
    )
    positions = Positions(shape.is_causal, offset, (None,) * len(keys))
    call = Call(zero.expand(shape.heads, shape.query_length, shape.d), keys, values, (), positions, 1.0)
    return relative_bound(call, plan.radius, dtype) <= sum(plan.relative_error(sum_rounding(plan, call)))


def crossover(plan: BoundedPlan, heads: int, is_causal: bool, device: torch.device) -> int:
    """The length from which a call of a plan, with as many queries as keys, is near-linear; shorter calls use exact
    attention.

    The cost of exact attention relative to the polynomial grows with the length, so that there is one such length; it
    is found by bisection.
    """

    def is_exact(length: int) -> bool:
        tokens = torch.zeros((), dtype=plan.dtype, device=device).expand(heads, length, plan.d)
        sets = (tokens,) * (plan.order - 1)
        positions = Positions(is_causal, 0, (None,) * (plan.order - 1))
        return exact_dtype(plan, Call(tokens, sets, sets, (), positions, 1.0)) is not None

    high = 1
    while is_exact(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_exact(middle) else (low, middle)
    return high
