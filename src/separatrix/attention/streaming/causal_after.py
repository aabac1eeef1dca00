"""Causal near-linear attention of new tokens to themselves and to earlier tokens, of which only the sums are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.call import Call, Positions
from separatrix.attention.dispatch.second_derivatives import only_first_derivatives
from separatrix.attention.near_linear import causal
from separatrix.attention.near_linear.expansion import Expansion, Sums


def causal_call(query: Tensor, tensors: Sequence[Tensor], masks: Sequence[Tensor], scale: float) -> Call:
    """The causal call of queries (H, L, d) on their own tokens: keys, then values; and masks (H, L), or None."""
    sets = len(tensors) // 2
    positions = Positions(True, 0, (None,) * sets)
    return Call(query, tuple(tensors[:sets]), tuple(tensors[sets:]), tuple(masks), positions, scale)


class _AttendAfter(torch.autograd.Function):
    """Causal attention to new tokens and to the states of all earlier tokens: query, keys, values, states."""

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
