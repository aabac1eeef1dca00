"""Which calls of a state the kernels compute that take a few tokens at a time, and the kernels for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.dispatch import gpu
from separatrix.attention.streaming.few_tokens import FEW, FewTokens
from separatrix.attention.streaming.few_tokens_gpu import FewTokensOnGpu
from separatrix.native import MOST_SETS
from separatrix.native_tensors import kernels_for

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState


def few_tokens_for(
    state: TensorAttentionState, tokens: list[Tensor], values: Sequence[Tensor] = ()
) -> FewTokens | FewTokensOnGpu | None:
    """The kernels, where they append or attend: a few tokens, as many of each set, and no gradient is wanted."""
    length = tokens[0].shape[-2]
    if not 0 < length <= FEW or state._heads == 0:
        return None
    if len(tokens) > 1 and any(x.shape[-2] != length for x in tokens):
        return None
    tensors = (*tokens, *values, *state._states)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return None
    on_gpu = FewTokensOnGpu.takes(state.order, state.value_dim) and gpu.computes(*tensors)
    library = kernels_for(*tensors) if not on_gpu and state.order - 1 <= MOST_SETS else None
    if not on_gpu and library is None:
        return None
    few = state._few
    if few is None:
        sizes = (state._heads, state.value_dim, state.bound, state.scale, state._most, state.norm)
        few = None if library is None else FewTokens(library, state.plan, *sizes)
        few = few or FewTokensOnGpu(state.device, state.plan, *sizes)
        state._few = few
    return few
