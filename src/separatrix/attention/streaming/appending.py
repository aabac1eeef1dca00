"""How tokens are appended to a state: all are checked, and then added to its sums, by kernels or as monomials."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.arithmetic.precision import require_ieee_arithmetic
from separatrix.attention.near_linear.backend import StreamKernels
from separatrix.attention.near_linear.differentiable_products import sum_of_monomials
from separatrix.attention.near_linear.expansion import with_ones
from separatrix.attention.streaming.few_tokens import few_tokens_kernels
from separatrix.attention.streaming.ledger import StreamLedger
from separatrix.attention.streaming.stream_rounding import roundings_of_chunks, roundings_of_few
from separatrix.attention.streaming.token_checks import as_sets, check_finite, seen_tokens
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState


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

    Masks are (heads, L_m), one for each set, or there are none. Keys and values that they hide are zero.
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
