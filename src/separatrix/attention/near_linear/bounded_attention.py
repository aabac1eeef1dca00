"""Near-linear attention by a plan that does not depend on the data, as PyTorch operators for compilers and transforms.

Where exact attention is cheaper, as it is for few tokens, it computes the call: see `bounded_choice`.

`separatrix::attend_within_bound` takes the bound on the scores and the tolerance, which determine the plan; plans are
cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.arithmetic.precision import no_autocast, require_ieee_arithmetic
from separatrix.attention.bounds import value_range
from separatrix.attention.call import Call
from separatrix.attention.dispatch.derivatives import differentiable
from separatrix.attention.dispatch.registration import decomposable, operator_of_heads
from separatrix.attention.dispatch.second_derivatives import no_forward_mode, no_second_derivatives
from separatrix.attention.exact import by_reference
from separatrix.attention.exact import operators as exact
from separatrix.attention.near_linear import causal
from separatrix.attention.near_linear import sums as polynomial
from separatrix.attention.near_linear.bounded_choice import exact_dtype
from separatrix.attention.near_linear.bounded_plan import (
    BoundedPlan,
    check_reached,
    expansion,
    plan_bounded,
    refuse_values,
    sum_rounding,
)
from separatrix.attention.near_linear.expansion import Sums
from separatrix.errors import SeparatrixError


def bounded_attention(plan: BoundedPlan, call: Call, *, may_be_exact: bool = True) -> Tensor:
    """The output (..., L_q, d_v) of a call without windows by a plan that bounds its scores, or exactly where cheaper.

    The caller makes sure, by normalising queries and keys, that the scores are within the plan's radius. This file
    checks that the plan's error bound holds for the number of tokens, that products of the values do not overflow
    float64, and that the outputs do not overflow their dtype.

    Args:
        plan: The plan.
        call: The call.
        may_be_exact: Whether exact attention may compute it where that is cheaper.
    """
    # A graph may be compiled for several lengths, and leaves the choice to the operator, which sees that of each call.
    if may_be_exact and not torch.compiler.is_compiling():
        may_be_exact = exact_dtype(plan, call) is not None
    positions, sets = call.positions, (list(call.keys), list(call.values), list(call.mask_of_each))
    options = (plan.radius, plan.tolerance, call.scale, positions.is_causal, positions.offset, may_be_exact)
    results = attend_within_bound(call.query, *sets, *options)
    return call.shaped(results[0])


def _plan(query: Tensor, keys: Sequence[Tensor], radius: float, tolerance: float) -> BoundedPlan:
    """The plan of a call with these arguments, whose scores are up to `radius`."""
    return plan_bounded(len(keys) + 1, int(query.shape[2]), radius, tolerance, query.dtype)


def _attend_within_bound(
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
) -> list[Tensor]:
    """Output (H, L_q, d_v), denominator (H, L_q) and, unless it is causal or may be exact, the state of each key set.

    Where exact attention computes the call, its log-sum-exp takes the place of the denominator. The backward pass would
    otherwise recompute the states. Exact attention has no states; where it is cheaper, the states would be many times
    larger than the tokens.
    """
    require_ieee_arithmetic()
    call = exact.operator_call(query, keys, values, masks, is_causal, offset, [0] * len(keys), scale)
    plan = _plan(query, keys, radius, tolerance)
    if may_be_exact and (dtype := exact_dtype(plan, call)) is not None:
        q, *sets = ([x.to(dtype) for x in tensors] for tensors in ([query], keys, values))
        out, lse = exact.attend(*q, *sets, masks, is_causal, offset, [0] * len(keys), scale)
        rounded = out.to(query.dtype, copy=True)
        if dtype != query.dtype and truth((torch.isfinite(out) & ~torch.isfinite(rounded)).any()):
            check_reached(query.dtype, number(out.masked_fill(~torch.isfinite(out), 0.0).abs().max()))
        return [rounded, lse.to(torch.float64, copy=True)]
    values_range = value_range(call.values, call.masks)
    refuse_values(values_range)
    error = plan.total_error(sum_rounding(plan, call))
    if error > tolerance:
        raise SeparatrixError(
            f"tolerance: with {[key.shape[1] for key in keys]} tokens the error bound is {error:.3g} of the values' "
            f"magnitude, which exceeds the tolerance {tolerance:.3g}: lower the bound or raise the tolerance."
        )
    expanded = expansion(plan, query.shape[0], scale, query.device)
    with no_autocast(query.device.type):
        states = [] if is_causal else polynomial.states(call, expanded)
        sums = causal.attend_causal(call, expanded) if is_causal else polynomial.attend(call, expanded, states)
    may_overflow = values_range.high > math.log2(torch.finfo(query.dtype).max) - 1
    if may_overflow and not truth(torch.isfinite(sums.output).all()):
        check_reached(query.dtype, max(number(values_range.largest.max()), 2.0 * torch.finfo(query.dtype).max))
    return [sums.output, sums.denominator, *([] if may_be_exact else states)]


def _attended(
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
) -> list[Tensor]:
    heads, length, _ = query.shape
    d_v, rank = values[0].shape[2], _plan(query, keys, radius, tolerance).rank
    out = query.new_empty(heads, length, d_v)
    denominator = query.new_empty(heads, length, dtype=torch.float64)
    sets = [] if is_causal or may_be_exact else keys
    return [out, denominator, *(key.new_empty(heads, rank, d_v + 1, dtype=torch.float64) for key in sets)]


attend_within_bound = operator_of_heads(_attend_within_bound, fake=_attended)


def _decomposed(
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
) -> list[Tensor]:
    """The results by exact attention in PyTorch's own operators, whose output is within any tolerance."""
    out, lse = by_reference.attend(query, keys, values, masks, is_causal, offset, [0] * len(keys), scale)
    states = _attended(query, keys, values, masks, radius, tolerance, scale, is_causal, offset, may_be_exact)[2:]
    return [out, lse.to(torch.float64), *(torch.zeros_like(z) for z in states)]


decomposable(attend_within_bound, _decomposed, fake=_attended)


def _attend_within_bound_backward(
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
    results: list[Tensor],
    grad_out: Tensor,
) -> list[Tensor]:
    """The gradients of query, keys and values, in this order, in one list."""
    out, denominator, *states = results
    call = exact.operator_call(query, keys, values, masks, is_causal, offset, [0] * len(keys), scale)
    plan = _plan(query, keys, radius, tolerance)
    if may_be_exact and (dtype := exact_dtype(plan, call)) is not None:
        q, *sets = ([x.to(dtype) for x in tensors] for tensors in ([query], keys, values))
        lse = denominator.to(dtype)
        incoming = (out.to(dtype), lse, grad_out.to(dtype), torch.zeros_like(lse))
        grads = exact.attend_backward(*q, *sets, masks, is_causal, offset, [0] * len(keys), scale, *incoming)
        return [grad.to(query.dtype) for grad in grads]
    expanded = expansion(plan, query.shape[0], scale, query.device)
    nothing = torch.zeros_like(denominator)
    sums = Sums(out, denominator, nothing)
    with no_autocast(query.device.type):
        if is_causal:
            grad_query, *grads = causal.backward_causal(call, expanded, sums, grad_out, nothing)
        else:
            states = states or polynomial.states(call, expanded)
            grad_query, *grads = polynomial.backward(call, expanded, states, sums, grad_out, nothing)
    return [grad.contiguous() for grad in (grad_query, *grads[0], *grads[1])]


def _gradients(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in (query, *keys, *values)]


attend_within_bound_backward = operator_of_heads(_attend_within_bound_backward, fake=_gradients)


def _backward(arguments: list[Any], results: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    gradients: list[Tensor] = attend_within_bound_backward(*arguments, results, grads[0])
    return gradients


differentiable(attend_within_bound, backward=_backward, forward=no_forward_mode, results=1)
differentiable(attend_within_bound_backward, backward=no_second_derivatives, forward=no_forward_mode)
