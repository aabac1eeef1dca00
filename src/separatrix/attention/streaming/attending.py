"""How queries attend to the sums of a state, and which queries raise an error because no error bound would hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.arithmetic.precision import require_ieee_arithmetic
from separatrix.attention.near_linear.backend import StreamKernels
from separatrix.attention.near_linear.bounded_plan import check_reached
from separatrix.attention.near_linear.differentiable_products import against_monomials
from separatrix.attention.near_linear.sums import contraction
from separatrix.attention.streaming.few_tokens import few_tokens_kernels
from separatrix.attention.streaming.stream_rounding import refuse_roundings

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState


def attend(state: TensorAttentionState, query: Tensor) -> Tensor:
    """The outputs of queries over all tuples of tokens so far; this implements `attend`."""
    require_ieee_arithmetic()
    state.check_tokens("query", query, state.head_dim)
    few = None if _sees_nothing(state) else few_tokens_kernels(state, [query])
    if few is None or 0 in state.ledger.tokens:
        state.refuse_beyond_bound("query", query)
    shape = (*state.batch_shape, query.shape[-2], state.value_dim)
    if 0 in state.ledger.tokens or 0 in shape:
        return query.new_zeros(shape)
    refuse_roundings(state.plan, state.tolerance, state.ledger.tokens, state.ledger.largest, state.ledger.roundings)
    return _attend(state, query).reshape(shape) if few is None else _attend_few(state, few, query)


def _sees_nothing(state: TensorAttentionState) -> bool:
    """Whether all tokens of a set are masked for some head, so that the sum of its column of ones is 0."""
    return state.ledger.hidden is not None and any(truth((z[:, 0, -1] == 0).any()) for z in state.held_states)


def _attend(state: TensorAttentionState, query: Tensor) -> Tensor:
    flat = state.flattened(query)
    met = contraction(state.held_states, state.expansion)[..., :-1]
    x = state.expansion.frame.coordinates(flat.to(torch.float64), 0)
    sums = against_monomials(x, met, state.plan.index_set, state.expansion.even_chunk(state.heads, flat.shape[1]))
    D = sums[:, -1:]
    averages = sums[:, :-1] / D.masked_fill(D == 0, math.inf)
    check_reached(state.dtype, number(averages.detach().abs().max()))
    return averages.mT.to(state.dtype)


def _attend_few(state: TensorAttentionState, few: StreamKernels, query: Tensor) -> Tensor:
    states = [z.contiguous() for z in state.held_states]
    result = few.attend(states, query, checked=False)
    if result is None:
        state.refuse_beyond_bound("query", query)
        result = few.attend(states, query, checked=True)
        assert result is not None
    out, reached = result
    check_reached(state.dtype, reached)
    return out
