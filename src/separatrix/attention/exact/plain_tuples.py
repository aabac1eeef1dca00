"""Exact attention of order 3 and above on plain tensors of the CPU: checked once, and computed without the dispatcher.

PyTorch's dispatcher, the checks of all options and autograd's records of reshaped inputs take several times as long as
attention of a few short heads. A call that may need any of them is left to `operators`, whose results are the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arguments import DTYPES
from separatrix.attention.call import Call
from separatrix.attention.exact import guarded
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact.native import ContiguousCall
from separatrix.attention.exact.operators import attend_backward, needs_numbers_alone
from separatrix.attention.positions import Positions

FEW_PRODUCTS = 5 * 10**11
"""Calls with more multiply-adds run for seconds, so that the time of all checks is small, and may need a warning."""


def plain_tuples(
    query: object, keys: object, values: object, is_causal: bool, scale: object
) -> tuple[Tensor, Tensor] | None:
    """The output and the log-sum-exp if the arguments need no further check and no broadcasting; None if they may."""
    if torch.compiler.is_compiling() or not (isinstance(keys, (list, tuple)) and isinstance(values, (list, tuple))):
        return None
    tensors: tuple[Any, ...] = (query, *keys, *values)
    sets = len(keys)
    if sets < 2 or len(values) != sets or torch.is_autocast_enabled("cpu"):
        return None
    if not _fit(tensors, sets, is_causal) or not needs_numbers_alone(tensors):
        return None
    factor = 1 / tensors[0].shape[-1] if scale is None else scale
    if not isinstance(factor, float) or not -math.inf < factor < math.inf:
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return _PlainTuples.apply(is_causal, factor, *tensors)  # type: ignore[no-any-return, no-untyped-call]
    return _attend(tensors, is_causal, factor)


def _fit(tensors: tuple[Any, ...], sets: int, is_causal: bool) -> bool:
    """Whether all tensors are plain ones of the CPU, of one dtype, with the same leading dimensions, and not empty."""
    query, value = tensors[0], tensors[-1]
    for x in tensors:
        if type(x) not in (Tensor, torch.nn.Parameter) or not x.is_cpu or x.is_nested or x.layout != torch.strided:
            return False
        if x.dtype != query.dtype or x.dim() != query.dim():
            return False
    if query.dtype not in DTYPES or query.dim() < 2:
        return False
    *batch, length, d = query.shape
    d_v, tuples = value.shape[-1], math.prod(query.shape[:-1])
    for key, of_key in zip(tensors[1 : sets + 1], tensors[sets + 1 :], strict=True):
        count = key.shape[-2]
        if key.shape != (*batch, count, d) or of_key.shape != (*batch, count, d_v) or (is_causal and count != length):
            return False
        tuples *= count
    return bool(d > 0 and d_v > 0 and 0 < tuples * (d + d_v) <= FEW_PRODUCTS)


def _call(tensors: tuple[Tensor, ...], is_causal: bool, scale: float) -> Call:
    """The call with its heads in one dimension."""
    dims, sets = tensors[0].dim(), len(tensors) // 2
    if dims != 3:
        tensors = tuple(x.flatten(0, -3) if dims > 3 else x.unsqueeze(0) for x in tensors)
    positions = Positions(is_causal, 0, (None,) * sets)
    return Call(tensors[0], tensors[1 : sets + 1], tensors[sets + 1 :], (), positions, scale)


def _attend(tensors: tuple[Tensor, ...], is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    if _for_kernels(tensors):
        results = ContiguousCall(tensors, is_causal, scale).forward()
        if results is not None:
            return results
    out, lse = guarded.forward(_call(tensors, is_causal, scale))
    leading = tensors[0].shape[:-1]
    return out.view(*leading, out.shape[-1]), lse.view(leading)


def _for_kernels(tensors: tuple[Tensor, ...]) -> bool:
    """Whether the native kernels take the tensors as they are."""
    return native_backend.has_kernels(len(tensors) // 2) and all(x.is_contiguous() for x in tensors)


class _PlainTuples(torch.autograd.Function):
    """Attention with a gradient. Its own derivative is that of `attend_backward`, which PyTorch's dispatcher knows."""

    @staticmethod
    def forward(ctx: Any, is_causal: bool, scale: float, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = _attend(tensors, is_causal, scale)
        ctx.save_for_backward(*tensors, out, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Any, ...]:
        *inputs, out, lse = ctx.saved_tensors  # read once: gradient checkpointing unpacks each tensor only once
        tensors, incoming = tuple(inputs), (out, lse, grad_out, grad_lse)
        numbers_alone = not torch.is_grad_enabled() and needs_numbers_alone((*tensors, *incoming))
        if numbers_alone and _for_kernels(tensors):
            gradients = ContiguousCall(tensors, ctx.is_causal, ctx.scale).backward(*(x.contiguous() for x in incoming))
            if gradients is not None:
                return None, None, *gradients
        call = _call(tensors, ctx.is_causal, ctx.scale)
        heads, length = call.query.shape[:2]
        flat = [x.reshape(heads, length, *x.shape[lse.dim() :]) for x in incoming]
        if numbers_alone:
            query, keys, values = guarded.backward(call, *flat)
            gradients = [query, *keys, *values]
        else:
            sets, none = (list(call.keys), list(call.values)), [None] * len(call.keys)
            gradients = attend_backward(call.query, *sets, none, ctx.is_causal, 0, [0] * len(none), ctx.scale, *flat)
        return None, None, *(grad.reshape(x.shape) for grad, x in zip(gradients, tensors, strict=True))
