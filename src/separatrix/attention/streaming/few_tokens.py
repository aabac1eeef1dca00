"""Which calls of a state use the kernels for a few tokens at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.near_linear.backend import StreamKernels, near_linear_backend
from separatrix.attention.near_linear.bounded_plan import balanced_exponents

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState

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
        kernels: StreamKernels | None = backend.stream_kernels(
            state.plan.index_set,
            state.plan.coefficients(state.device),
            [powers[0] * state.scale, *powers[1:]],
            state.heads,
            state.value_dim,
            state.largest_token,
            state.order if state.norm == "order" else 0,
        )
        state.kernels = (backend.NAME, kernels)
    return state.kernels[1]
