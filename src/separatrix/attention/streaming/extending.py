"""Appends tokens and attends with their queries in one call: causal attention that continues a state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.arithmetic.precision import require_ieee_arithmetic
from separatrix.attention.near_linear.backend import backend_of, summing
from separatrix.attention.near_linear.bounded_plan import check_reached
from separatrix.attention.streaming.appending import append_checked, checked_tokens, refuse_tokens
from separatrix.attention.streaming.causal_after import attend_after, causal_call
from separatrix.attention.streaming.few_tokens import few_tokens_kernels
from separatrix.attention.streaming.stream_rounding import refuse_roundings, roundings_of_chunks, roundings_of_few
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState


def extend(
    state: TensorAttentionState,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    key_masks: Tensor | Sequence[Tensor | None] | None,
) -> Tensor:
    """Append tokens and return the output of each; this implements `extend`."""
    require_ieee_arithmetic()
    key_sets, value_sets, masks = checked_tokens(state, keys, values, key_masks)
    length = key_sets[0].shape[-2]
    shared = isinstance(query, Tensor) and query.dim() == len(state.batch_shape) + 3
    for head_query in query.unbind(-3) if shared else [query]:
        state.check_tokens("query", head_query, state.head_dim)
    for name, x in (("query", query), *((f"keys[{m}]", key) for m, key in enumerate(key_sets))):
        if x.shape[-2] != length:
            raise ArgumentError(name, expected=f"{length} tokens, as keys[0]", got=str(x.shape[-2]))
    state.refuse_beyond_bound("query", query)
    if length == 1:  # heads of queries that share keys and values
        chunk = state.expansion.even_chunk(state.heads, 1)
        by_kernels = not masks and few_tokens_kernels(state, key_sets, value_sets) is not None
        roundings = [
            roundings_of_few(before, 1) if by_kernels else roundings_of_chunks(before, 1, chunk)
            for before in state.ledger.roundings
        ]
        refuse_roundings(
            state.plan, state.tolerance, [n + 1 for n in state.ledger.tokens], state.ledger.largest, roundings
        )
        state.append(key_sets, value_sets, key_masks=key_masks)
        return state.attend(query.squeeze(-2)).unsqueeze(-2) if shared else state.attend(query)
    refuse_tokens(state, key_sets, value_sets)
    few = None if masks else few_tokens_kernels(state, [query, *key_sets], value_sets)
    if few is not None and few.ONE_BY_ONE:
        roundings = [max(before, 1) + length for before in state.ledger.roundings]
        refuse_roundings(
            state.plan, state.tolerance, [n + length for n in state.ledger.tokens], state.ledger.largest, roundings
        )
        tokens = zip(*(x.split(1, -2) for x in (query, *key_sets, *value_sets)), strict=True)
        return torch.cat([state.extend(q, x[: state.order - 1], x[state.order - 1 :]) for q, *x in tokens], -2)
    out = _attend_after(state, query if shared else query.unsqueeze(-3), key_sets, value_sets, masks)
    append_checked(state, key_sets, value_sets, masks)
    return out if shared else out.squeeze(-3)


def _attend_after(
    state: TensorAttentionState, query: Tensor, keys: list[Tensor], values: list[Tensor], masks: list[Tensor]
) -> Tensor:
    """The outputs (*batch_shape, s, L, d_v) of queries (*batch_shape, s, L, d) for tokens not appended yet."""
    length = query.shape[-2]
    if 0 in query.shape or state.heads == 0:
        return query.new_zeros(*query.shape[:-1], state.value_dim)
    flat = [state.flattened(x) for x in (*keys, *values)]
    magnitudes = [number(value.detach().abs().max()) for value in values]
    largest = [max(pair) for pair in zip(state.ledger.largest, magnitudes, strict=True)]
    outputs = []
    for head_query in query.unbind(-3):
        call = causal_call(state.flattened(head_query), flat, masks, state.scale)
        scan = summing(backend_of(call), call, state.plan.rank, torch.float64).tokens([length])
        roundings = [before + scan.count() + scan.count(wide=True) for before in state.ledger.roundings]
        refuse_roundings(
            state.plan, state.tolerance, [count + length for count in state.ledger.tokens], largest, roundings
        )
        out = attend_after(state.expansion, state.scale, masks, call.query, *flat, *state.held_states)
        if not truth(torch.isfinite(out).all()):
            check_reached(state.dtype, math.inf)
        outputs.append(out.reshape(*state.batch_shape, length, state.value_dim))
    return torch.stack(outputs, -3)
