"""Exact attention of packed sequences, and its gradient, by one launch of each Triton kernel that supports them.

Everywhere else, `attention.packed` attends them in a loop. The gradient is computed in a loop, too, if a factor is out
of range, or if the gradient is differentiated itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call
from separatrix.attention.exact import triton
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.operators import attend_backward, needs_numbers_alone, operands
from separatrix.attention.exact.triton.engine import takes_sequences
from separatrix.attention.exact.triton.sequences import from_sequences, packed_call, to_sequences

Stops = Sequence[Sequence[int]]
"""The cumulative lengths of the sequences in the queries and in each key set."""


def attend_sequences(call: Call, stops: Stops, offsets: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """The output (..., L_q, d_v) and the log-sum-exp (..., L_q) of packed sequences, or None if a loop computes them.

    Args:
        call: The call, with the tokens of all sequences, and any offset.
        stops: The cumulative lengths.
        offsets: The offset of each sequence.
    """
    if not needs_numbers_alone(call.tensors) or exact_backend(call) is not triton:
        return None
    if not takes_sequences(call, stops, offsets):
        return None
    out, lse = _AttendSequences.apply(call, stops, offsets, *call.tensors)  # type: ignore[no-untyped-call]
    return None if out is None else (call.shaped(out), call.shaped(lse))


class _AttendSequences(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, stops: Stops, offsets: Sequence[int], *tensors: Tensor) -> Any:
        with no_autocast(call.query.device.type):
            packed = packed_call(call, stops, offsets)
            size = triton.size_of(packed)
            if not size.moderate or size.log_output > math.log2(torch.finfo(call.query.dtype).max) - 0.5:
                return None, None
            out, lse = (from_sequences(x, stops[0]) for x in triton.forward(packed))
        ctx.options = call.masks, call.positions, call.scale
        ctx.sequences = stops, offsets
        ctx.save_for_backward(*tensors, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> Any:
        query, k1, k2, v1, v2, *rows = ctx.saved_tensors
        call, (stops, offsets) = Call(query, (k1, k2), (v1, v2), *ctx.options), ctx.sequences
        rows += [grad_out, grad_lse]
        with no_autocast(query.device.type):
            packed = None if torch.is_grad_enabled() else packed_call(call, stops, offsets)
            if packed is not None and triton.size_of(packed).near_one:
                of_query, of_keys, of_values = triton.backward(packed, *(to_sequences(x, stops[0]) for x in rows))
                gradients = [of_query, *of_keys, *of_values]
                axes = (0, 1, 2, 1, 2)
                gradients = [from_sequences(x, stops[axis]) for x, axis in zip(gradients, axes, strict=True)]
            else:
                gradients = _gradients_in_a_loop(call, stops, offsets, rows)
        return None, None, None, *gradients


def _gradients_in_a_loop(call: Call, stops: Stops, offsets: Sequence[int], rows: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of query, keys and values, sequence by sequence; they can be differentiated."""
    parts = []
    for ranges, offset in zip(zip(*map(pairwise, stops), strict=True), offsets, strict=True):
        queries, *keys = (slice(*stop) for stop in ranges)
        sequence = replace(
            call,
            query=call.query[:, queries],
            keys=tuple(x[:, tokens] for x, tokens in zip(call.keys, keys, strict=True)),
            values=tuple(x[:, tokens] for x, tokens in zip(call.values, keys, strict=True)),
            masks=tuple(x[:, tokens] for x, tokens in zip(call.masks, keys, strict=bool(call.masks))),
            positions=replace(call.positions, offset=offset),
        )
        parts.append(attend_backward(*operands(sequence), *(x[:, queries] for x in rows)))
    return [torch.cat(gradients, 1) for gradients in zip(*parts, strict=True)]
