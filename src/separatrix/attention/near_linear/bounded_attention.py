"""Near-linear attention by a plan that does not depend on the data, as PyTorch operators for compilers and transforms.

Exact attention computes the call where it is cheaper, as it is for few tokens, if its error bound is no larger
(`exact_dtype`).

`separatrix::attend_within_bound` takes the bound on the scores and the tolerance, which determine the plan; plans are
cached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.arithmetic.precision import float32_products_are_float32, no_autocast, require_ieee_arithmetic
from separatrix.attention.bounds import value_range
from separatrix.attention.call import Call, Positions
from separatrix.attention.dispatch.registration import (
    decomposable,
    differentiable,
    no_forward_mode,
    no_second_derivatives,
    operator_of_heads,
)
from separatrix.attention.exact import operators as exact
from separatrix.attention.exact.error_bound import relative_bound
from separatrix.attention.near_linear import causal
from separatrix.attention.near_linear import sums as polynomial
from separatrix.attention.near_linear.bounded_plan import (
    BoundedPlan,
    check_reached,
    expansion,
    plan_bounded,
    refuse_values,
    sum_rounding,
)
from separatrix.attention.near_linear.cost import Shape, exact_cost, polynomial_cost
from separatrix.attention.near_linear.sums import Expansion, Sums
from separatrix.errors import SeparatrixError


def exact_dtype(plan: BoundedPlan, call: Call) -> torch.dtype | None:
    """The dtype in which exact attention computes a call whose scores are within the plan's radius; None if the
    polynomial computes it.

    The choice depends only on shapes and dtypes. The plan's certificate for the polynomial then also holds for exact
    attention: its error is at most as large, for all data, and its output is rounded to the same dtype.
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


def bounded_attention(plan: BoundedPlan, call: Call, *, may_be_exact: bool = True) -> Tensor:
    """The output (..., L_q, d_v) of a call without windows, by a plan that bounds its scores, or by exact attention if
    that is cheaper.

    The caller ensures, by normalising queries and keys, that the scores are within the plan's radius. This file checks
    that the plan's error bound holds for the number of tokens, that products of the values do not overflow float64, and
    that the outputs do not overflow their dtype.
    """
    # A graph may be compiled for several lengths, so the operator chooses for each call.
    if may_be_exact and not torch.compiler.is_compiling():
        may_be_exact = exact_dtype(plan, call) is not None
    positions, sets = call.positions, (list(call.keys), list(call.values), list(call.mask_of_each))
    options = (plan.radius, plan.tolerance, call.scale, positions.is_causal, positions.offset, may_be_exact)
    results = attend_within_bound(call.query, *sets, *options)
    return call.shaped(results[0])


@dataclass(frozen=True)
class _BoundedCall:
    """The arguments of the operators: a call, its plan, and whether exact attention may compute it."""

    call: Call
    plan: BoundedPlan
    may_be_exact: bool

    @staticmethod
    def of(
        query: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor | None],
        radius: float,
        tolerance: float,
        scale: float,
        is_causal: bool,
        offset: int,
        may_be_exact: bool,
    ) -> _BoundedCall:
        call = exact.operator_call(query, keys, values, masks, is_causal, offset, [0] * len(keys), scale)
        return _BoundedCall(
            call, plan_bounded(call.order, int(query.shape[2]), radius, tolerance, query.dtype), may_be_exact
        )

    def exact_call(self) -> Call | None:
        """The call in the dtype in which exact attention computes it; None if it does not."""
        dtype = exact_dtype(self.plan, self.call) if self.may_be_exact else None
        return None if dtype is None else self.call.to(dtype)

    def expanded(self) -> Expansion:
        return expansion(self.plan, self.call.query.shape[0], self.call.scale, self.call.query.device)


ARGUMENTS = (
    "Tensor query, Tensor[] keys, Tensor[] values, Tensor?[] masks, "
    "float radius, float tolerance, float scale, bool is_causal, SymInt offset, bool may_be_exact"
)
"""The arguments of both operators, as `_BoundedCall.of` reads them."""


def _attend_within_bound(*arguments: Any) -> list[Tensor]:
    """Output (H, L_q, d_v), denominator (H, L_q) and, unless the call is causal or may be exact, the state of each key
    set.

    Where exact attention computes the call, its log-sum-exp takes the place of the denominator. The backward pass would
    otherwise recompute the states. Exact attention has no states; where it is cheaper, the states would be many times
    larger than the tokens.
    """
    require_ieee_arithmetic()
    given = _BoundedCall.of(*arguments)
    call, plan = given.call, given.plan
    dtype = call.query.dtype
    if (exact_call := given.exact_call()) is not None:
        out, lse = exact.attend(*exact.operands(exact_call))
        rounded = out.to(dtype, copy=True)
        if out.dtype != dtype and truth((torch.isfinite(out) & ~torch.isfinite(rounded)).any()):
            check_reached(dtype, number(out.masked_fill(~torch.isfinite(out), 0.0).abs().max()))
        return [rounded, lse.to(torch.float64, copy=True)]
    values_range = value_range(call.values, call.masks)
    refuse_values(values_range)
    error = plan.total_error(sum_rounding(plan, call))
    if error > plan.tolerance:
        raise SeparatrixError(
            f"tolerance: with {list(call.key_lengths)} tokens the error bound is {error:.3g} of the values' "
            f"magnitude, which exceeds the tolerance {plan.tolerance:.3g}: lower the bound or raise the tolerance."
        )
    expanded, is_causal = given.expanded(), call.positions.is_causal
    with no_autocast(call.query.device.type):
        states = [] if is_causal else polynomial.states(call, expanded)
        sums = causal.attend_causal(call, expanded) if is_causal else polynomial.attend(call, expanded, states)
    may_overflow = values_range.high > math.log2(torch.finfo(dtype).max) - 1
    if may_overflow and not truth(torch.isfinite(sums.output).all()):
        check_reached(dtype, max(number(values_range.largest.max()), 2.0 * torch.finfo(dtype).max))
    return [sums.output, sums.denominator, *([] if given.may_be_exact else states)]


def _attended(*arguments: Any) -> list[Tensor]:
    given = _BoundedCall.of(*arguments)
    call, (heads, length, _) = given.call, given.call.query.shape
    d_v = call.values[0].shape[2]
    out = call.query.new_empty(heads, length, d_v)
    denominator = call.query.new_empty(heads, length, dtype=torch.float64)
    sets = () if call.positions.is_causal or given.may_be_exact else call.keys
    return [out, denominator, *(key.new_empty(heads, given.plan.rank, d_v + 1, dtype=torch.float64) for key in sets)]


attend_within_bound = operator_of_heads(_attend_within_bound, fake=_attended, schema=f"({ARGUMENTS}) -> Tensor[]")


def _decomposed(*arguments: Any) -> list[Tensor]:
    """The results of exact attention in PyTorch's own operators, whose output is within any tolerance."""
    out, lse = exact.attend_by_reference(*exact.operands(_BoundedCall.of(*arguments).call))
    return [out, lse.to(torch.float64), *(torch.zeros_like(z) for z in _attended(*arguments)[2:])]


decomposable(attend_within_bound, _decomposed, fake=_attended)


def _attend_within_bound_backward(*arguments: Any) -> list[Tensor]:
    """The gradients of query, keys and values in one list: from the call, its results and the incoming gradient."""
    *of_call, (out, denominator, *states), grad_out = arguments
    given = _BoundedCall.of(*of_call)
    call, nothing = given.call, torch.zeros_like(denominator)
    if (exact_call := given.exact_call()) is not None:
        dtype = exact_call.query.dtype
        incoming = [x.to(dtype) for x in (out, denominator, grad_out, nothing)]
        return [grad.to(out.dtype) for grad in exact.attend_backward(*exact.operands(exact_call), *incoming)]
    expanded, sums = given.expanded(), Sums(out, denominator, nothing)
    with no_autocast(call.query.device.type):
        if call.positions.is_causal:
            grad_query, *grads = causal.backward_causal(call, expanded, sums, grad_out, nothing)
        else:
            states = states or polynomial.states(call, expanded)
            grad_query, *grads = polynomial.backward(call, expanded, states, sums, grad_out, nothing)
    return [grad.contiguous() for grad in (grad_query, *grads[0], *grads[1])]


attend_within_bound_backward = operator_of_heads(
    _attend_within_bound_backward,
    fake=exact.gradients_like,
    schema=f"({ARGUMENTS}, Tensor[] results, Tensor grad_out) -> Tensor[]",
)


def _backward(arguments: list[Any], results: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    gradients: list[Tensor] = attend_within_bound_backward(*arguments, results, grads[0])
    return gradients


differentiable(attend_within_bound, backward=_backward, forward=no_forward_mode, results=1)
differentiable(attend_within_bound_backward, backward=no_second_derivatives, forward=no_forward_mode)
