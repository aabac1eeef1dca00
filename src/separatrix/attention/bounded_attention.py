"""Near-linear attention by a plan that no data changes, as PyTorch operators: compilers and transforms keep it whole.

`separatrix::attend_bounded` is given the polynomial's coefficients, one number for each degree, and so knows its index
set. A graph that was exported holds these numbers, and computes what was planned then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention import causal, polynomial
from separatrix.attention.bounded import BoundedPlan, expansion_of
from separatrix.attention.derivatives import differentiable
from separatrix.attention.frame import Tokens
from separatrix.attention.polynomial import Expansion, Sums
from separatrix.attention.precision import no_autocast
from separatrix.attention.registration import operator_of_heads
from separatrix.attention.second_derivatives import no_forward_mode, no_second_derivatives


def bounded_attention(
    plan: BoundedPlan,
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    masks: Sequence[Tensor],
    *,
    scale: float,
    is_causal: bool = False,
    query_offset: int = 0,
) -> Tensor:
    """Output (H, L_q, d_v) of heads whose scores the caller knows to be within the plan's radius."""
    coefficients = list(plan.polynomial.coefficients)
    results = attend_bounded(query, list(keys), list(values), list(masks), coefficients, scale, is_causal, query_offset)
    out: Tensor = results[0]
    return out


def _expansion(query: Tensor, keys: Sequence[Tensor], coefficients: Sequence[float], scale: float) -> Expansion:
    heads, _, d = query.shape
    return expansion_of(len(keys) + 1, d, coefficients, heads, scale, query.device)


def _attend_bounded(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor],
    coefficients: list[float],
    scale: float,
    is_causal: bool,
    offset: int,
) -> list[Tensor]:
    """Output (H, L_q, d_v) and denominator (H, L_q) and, if it is not causal, the state of each key set."""
    tokens = Tokens(query, tuple(keys), tuple(values), tuple(masks), scale)
    expanded = _expansion(query, keys, coefficients, scale)
    with no_autocast(query.device.type):
        states = [] if is_causal else polynomial.states(tokens, expanded)
        if is_causal:
            sums = causal.attend_causal(tokens, expanded, offset)
        else:
            sums = polynomial.attend(tokens, expanded, states)
    return [sums.output, sums.denominator, *states]


def _attended(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor],
    coefficients: list[float],
    scale: float,
    is_causal: bool,
    offset: int,
) -> list[Tensor]:
    heads, length, d = query.shape
    d_v, degree = values[0].shape[2], len(coefficients) - 1
    out = query.new_empty(heads, length, d_v)
    denominator = query.new_empty(heads, length, dtype=torch.float64)
    rank = math.comb(int(d) + degree, degree)
    sets = [] if is_causal else keys
    return [out, denominator, *(key.new_empty(heads, rank, d_v + 1, dtype=torch.float64) for key in sets)]


attend_bounded = operator_of_heads(_attend_bounded, fake=_attended)


def _attend_bounded_backward(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor],
    coefficients: list[float],
    scale: float,
    is_causal: bool,
    offset: int,
    results: list[Tensor],
    grad_out: Tensor,
) -> list[Tensor]:
    """The gradients of query, keys and values, in this order, in one list."""
    out, denominator, *states = results
    tokens = Tokens(query, tuple(keys), tuple(values), tuple(masks), scale)
    expanded = _expansion(query, keys, coefficients, scale)
    nothing = torch.zeros_like(denominator)
    sums = Sums(out, denominator, nothing)
    with no_autocast(query.device.type):
        if is_causal:
            found = causal.backward_causal(tokens, expanded, sums, offset, grad_out, nothing)
        else:
            found = polynomial.backward(tokens, expanded, states, sums, grad_out, nothing)
    return [found[0], *found[1], *found[2]]


def _gradients(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in (query, *keys, *values)]


attend_bounded_backward = operator_of_heads(_attend_bounded_backward, fake=_gradients)


def _backward(arguments: list[Any], results: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    found: list[Tensor] = attend_bounded_backward(*arguments, results, grads[0])
    return found


differentiable(attend_bounded, backward=_backward, forward=no_forward_mode, results=1)
differentiable(attend_bounded_backward, backward=no_second_derivatives, forward=no_forward_mode)
