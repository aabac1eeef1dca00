"""The three operations of a state: append tokens to its sums, attend to them, and do both in turn.

All tokens are checked, and then added to the sums: a few at a time by kernels, and more as monomials. Queries raise an
error where no error bound would hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.arithmetic.precision import require_ieee_arithmetic
from separatrix.attention.call import Call, Positions
from separatrix.attention.dispatch.registration import only_first_derivatives
from separatrix.attention.near_linear import causal
from separatrix.attention.near_linear.backend import StreamKernels, StreamPlan, backend_of, near_linear_backend, summing
from separatrix.attention.near_linear.bounded_plan import balanced_exponents, check_reached
from separatrix.attention.near_linear.sums import (
    Expansion,
    Sums,
    against_monomials,
    contraction,
    sum_of_monomials,
    with_ones,
)
from separatrix.attention.streaming.ledger import (
    StreamLedger,
    refuse_roundings,
    roundings_of_chunks,
    roundings_of_few,
)
from separatrix.attention.streaming.token_checks import as_sets, check_finite, seen_tokens
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState


def causal_call(query: Tensor, tensors: Sequence[Tensor], masks: Sequence[Tensor], scale: float) -> Call:
    """The causal call of queries (H, L, d) on their own tokens: keys, then values; and masks (H, L), or None."""
    sets = len(tensors) // 2
    positions = Positions(True, 0, (None,) * sets)
    return Call(query, tuple(tensors[:sets]), tuple(tensors[sets:]), tuple(masks), positions, scale)


class _AttendAfter(torch.autograd.Function):
    """Causal attention to new tokens and to the states of all earlier tokens."""

    @staticmethod
    def forward(
        ctx: Any, expanded: Expansion, scale: float, masks: Sequence[Tensor], query: Tensor, *rest: Tensor
    ) -> Tensor:
        ctx.expanded, ctx.scale, ctx.masks = expanded, scale, masks
        sets = len(rest) // 3
        sums = causal.attend_causal(causal_call(query, rest[: 2 * sets], masks, scale), expanded, rest[2 * sets :])
        ctx.save_for_backward(query, *rest, sums.output, sums.denominator)
        return sums.output

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        query, *rest, out, denominator = ctx.saved_tensors
        sets = len(rest) // 3
        call = causal_call(query, rest[: 2 * sets], ctx.masks, ctx.scale)
        sums = Sums(out, denominator, torch.zeros_like(denominator))
        grads = causal.backward_causal_after(
            call, ctx.expanded, sums, rest[2 * sets :], grad_out, torch.zeros_like(denominator)
        )
        return None, None, None, grads[0], *grads[1], *grads[2], *grads[3]


attend_after: Callable[..., Tensor] = _AttendAfter.apply
"""The outputs (H, L, d_v) of an expansion, a scale, masks or none, query, keys, values and the states before."""


FEW = 8
"""The largest number of tokens in a call: with more, products of whole tiles of tokens cost less."""


def few_tokens_kernels(
    state: TensorAttentionState, tokens: list[Tensor], values: Sequence[Tensor] = ()
) -> StreamKernels | None:
    """The kernels for a few tokens, equally many of each set; None if there are none, or if gradients are needed."""
    length = tokens[0].shape[-2]
    if not 0 < length <= FEW or state.heads == 0:
        return None
    if len(tokens) > 1 and any(x.shape[-2] != length for x in tokens):
        return None
    tensors = (*tokens, *values, *state.held_states)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return None
    backend = near_linear_backend(tensors, state.order - 1, state.value_dim)
    if state.kernels[0] != backend.NAME:
        powers = [2.0**exponent for exponent in balanced_exponents(state.order, state.bound, state.scale)]
        plan = StreamPlan(
            state.plan.index_set,
            state.plan.coefficients(state.device),
            [powers[0] * state.scale, *powers[1:]],
            state.heads,
            state.value_dim,
            state.largest_token,
            state.order if state.norm == "order" else 0,
        )
        state.kernels = (backend.NAME, backend.stream_kernels(plan))
    return state.kernels[1]


def append(
    state: TensorAttentionState,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    key_masks: Tensor | Sequence[Tensor | None] | None,
) -> None:
    """Check tokens and add them to a state; this implements `append`."""
    require_ieee_arithmetic()
    key_sets, value_sets, masks = checked_tokens(state, keys, values, key_masks)
    few = None if masks else few_tokens_kernels(state, key_sets, value_sets)
    if few is not None:
        return _append_few(state, few, key_sets, value_sets)
    refuse_tokens(state, key_sets, value_sets)
    append_checked(state, key_sets, value_sets, masks)


def checked_tokens(
    state: TensorAttentionState,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    key_masks: Tensor | Sequence[Tensor | None] | None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The keys and values of each set, with the shapes, dtype and device of the state; and their masks.

    Masks are (heads, L_m), one for each set, or there are none. Masked keys and values are zero.
    """
    key_sets, value_sets = as_sets("keys", keys, state.order), as_sets("values", values, state.order)
    for m, (key, value) in enumerate(zip(key_sets, value_sets, strict=True)):
        state.check_tokens(f"keys[{m}]", key, state.head_dim)
        state.check_tokens(f"values[{m}]", value, state.value_dim)
        if key.shape[-2] != value.shape[-2]:
            expected = f"as many values as keys[{m}] has tokens, {key.shape[-2]}"
            raise ArgumentError(f"values[{m}]", expected=expected, got=str(value.shape[-2]))
    mask_sets = [] if key_masks is None else as_sets("key_masks", key_masks, state.order)
    if all(mask is None for mask in mask_sets):
        return key_sets, value_sets, []
    seen = [
        seen_tokens(f"key_masks[{m}]", mask, (*state.batch_shape, key.shape[-2]), state.device)
        for m, (mask, key) in enumerate(zip(mask_sets, key_sets, strict=True))
    ]
    key_sets, value_sets = (
        [x.masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, seen, strict=True)]
        for sets in (key_sets, value_sets)
    )
    return key_sets, value_sets, [mask.reshape(state.heads, mask.shape[-1]) for mask in seen]


def refuse_tokens(state: TensorAttentionState, keys: list[Tensor], values: list[Tensor]) -> None:
    """Raise an `ArgumentError` for tokens that exceed the bound, and for values that are not finite."""
    for m, (key, value) in enumerate(zip(keys, values, strict=True)):
        state.refuse_beyond_bound(f"keys[{m}]", key)
        check_finite(f"values[{m}]", value)


def append_checked(state: TensorAttentionState, keys: list[Tensor], values: list[Tensor], masks: list[Tensor]) -> None:
    """Add tokens that were checked to the sums of a state, as products of monomials.

    The state is modified only after all new sums are computed, so that an interrupted call leaves it unchanged.
    """
    states, ledger = list(state.held_states), copy(state.ledger)
    for m, (key, value) in enumerate(zip(keys, values, strict=True)):
        length = key.shape[-2]
        if length == 0 or state.heads == 0:
            continue
        mask = masks[m] if masks else None
        size = state.expansion.even_chunk(state.heads, length)
        x = state.expansion.frame.coordinates(state.flattened(key).to(torch.float64), m + 1)
        W = with_ones(state.flattened(value), mask, torch.float64)
        states[m] = states[m] + sum_of_monomials(x, W, state.plan.index_set, size)
        roundings = roundings_of_chunks(ledger.roundings[m], length, size)
        ledger.add(m, length, number(value.detach().abs().max()), roundings)
        if mask is not None:
            ledger.hidden = (state.hidden_counts() if ledger.hidden is None else ledger.hidden).clone()
            ledger.hidden[m] += (~mask).sum(-1)
    state.replace(states, ledger)  # the new sums may be part of a graph


def _append_few(state: TensorAttentionState, few: StreamKernels, keys: list[Tensor], values: list[Tensor]) -> None:
    length, before = keys[0].shape[-2], copy(state.ledger)
    try:
        largest = few.append(state.own_states(), keys, values, checked=False)
        if largest is None:
            refuse_tokens(state, keys, values)
            largest = few.append(state.own_states(), keys, values, checked=True)
            assert largest is not None
        for m, magnitude in enumerate(largest):
            state.ledger.add(m, length, magnitude, roundings_of_few(before.roundings[m], length))
    except BaseException:
        # A signal handler may raise after the kernels have changed the sums, and before the ledger has the tokens.
        if _visible_tokens(before) != [int(z[0, 0, -1]) for z in state.held_states]:
            for m, value in enumerate(values):
                magnitude = number(value.detach().abs().max())
                before.add(m, length, magnitude, roundings_of_few(before.roundings[m], length))
        state.ledger = before
        raise


def _visible_tokens(ledger: StreamLedger) -> list[int]:
    """The number of unmasked tokens of each set for the first head: the sum of the monomial 1, in the last column."""
    hidden = [0] * len(ledger.tokens) if ledger.hidden is None else [int(count) for count in ledger.hidden[:, 0]]
    return [tokens - count for tokens, count in zip(ledger.tokens, hidden, strict=True)]


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
    refuse_roundings(state.plan, state.ledger)
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
        _refuse_after(state, 1, roundings)
        state.append(key_sets, value_sets, key_masks=key_masks)
        return state.attend(query.squeeze(-2)).unsqueeze(-2) if shared else state.attend(query)
    refuse_tokens(state, key_sets, value_sets)
    few = None if masks else few_tokens_kernels(state, [query, *key_sets], value_sets)
    if few is not None and few.ONE_BY_ONE:
        roundings = [max(before, 1) + length for before in state.ledger.roundings]
        _refuse_after(state, length, roundings)
        tokens = zip(*(x.split(1, -2) for x in (query, *key_sets, *value_sets)), strict=True)
        return torch.cat([state.extend(q, x[: state.order - 1], x[state.order - 1 :]) for q, *x in tokens], -2)
    out = _attend_after(state, query if shared else query.unsqueeze(-3), key_sets, value_sets, masks)
    append_checked(state, key_sets, value_sets, masks)
    return out if shared else out.squeeze(-3)


def _refuse_after(
    state: TensorAttentionState, length: int, roundings: list[int], largest: list[float] | None = None
) -> None:
    """Raise a `SeparatrixError` if the error bound would exceed the tolerance after more tokens of each set."""
    ledger = state.ledger
    tokens = [count + length for count in ledger.tokens]
    refuse_roundings(state.plan, StreamLedger(tokens, largest or ledger.largest, roundings))


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
        _refuse_after(state, length, roundings, largest)
        out = attend_after(state.expansion, state.scale, masks, call.query, *flat, *state.held_states)
        if not truth(torch.isfinite(out).all()):
            check_reached(state.dtype, math.inf)
        outputs.append(out.reshape(*state.batch_shape, length, state.value_dim))
    return torch.stack(outputs, -3)
