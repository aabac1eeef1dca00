"""Exact order-k attention as PyTorch operators: what autograd, `torch.compile` and `torch.func` see of the backends.

`separatrix::attend` takes heads in one leading dimension, query (H, L_q, d), with keys and values for each of them or
for each group of as many that follow each other. It returns the output and the log-sum-exp.
`separatrix::attend_backward` is its gradient and `separatrix::attend_tangents` its derivative in forward mode, both
recomputed block by block. Second derivatives are computed by the reference, which stores the whole attention tensor, so
they are for small sizes. There is a mask for every key set, or None for every one of them: AOTInductor cannot pass an
empty list to an operator, and `vmap` does not see tensors in a list that may be None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arguments import DTYPES, CallArguments
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call, Positions, flattened
from separatrix.attention.dispatch.derivatives import (
    beyond_one_gradient,
    differentiable,
    differentiable_by,
    forward_mode,
)
from separatrix.attention.dispatch.registration import decomposable, operator_of_heads
from separatrix.attention.exact import by_reference, guarded
from separatrix.attention.exact.flops import register_flop_formulas
from separatrix.attention.exact.fused import attend_pairs, kernels_are_faster
from separatrix.errors import ArgumentError


def exact_attention(call: Call) -> tuple[Tensor, Tensor]:
    """The output (..., L_q, d_v) and the log-sum-exp (..., L_q) of a checked call."""
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors)
    run = _attend if not gradient and needs_numbers_alone(call.tensors) else attend
    if not torch.compiler.is_compiling() and torch._C._len_torch_dispatch_stack():
        register_flop_formulas()
    out, lse = run(*operands(call))
    return call.shaped(out), call.shaped(lse)


def operands(call: Call) -> tuple[Any, ...]:
    """The arguments of an operator for a call, as `operator_call` reads them."""
    positions = call.positions
    # Positions differ by less than 2^63, so a longer window is equivalent to this one.
    windows = [0 if window is None else min(window, 2**63 - 1) for window in positions.windows]
    tensors = (call.query, list(call.keys), list(call.values), list(call.mask_of_each))
    return (*tensors, positions.is_causal, positions.offset, windows, call.scale)


def needs_numbers_alone(tensors: Sequence[Tensor]) -> bool:
    """Whether no transform, compiler or dispatch mode has to see a computation with plain tensors.

    PyTorch's dispatcher takes as long as attention of a few short heads.
    """
    return (
        not torch.compiler.is_compiling()  # first: a compiler cannot trace the rest
        and all(type(x) in (Tensor, torch.nn.Parameter) for x in tensors)
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not forward_mode()
    )


def plain_attention(query: object, key: object, value: object, is_causal: bool, scale: object) -> Tensor | None:
    """Ordinary attention by PyTorch's fused kernel if the arguments need no further check; None if they may.

    The checks of a call take longer than attention of a few short heads.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        return None
    if query.is_nested or key.is_nested or value.is_nested:
        return None
    shape, key_shape, dtype = query.shape, key.shape, query.dtype
    if (
        len(shape) == 4
        and key_shape == value.shape
        and (key_shape == shape or (not is_causal and _differ_in_length_alone(shape, key_shape)))
        and query.numel() * key.numel()
        and query.layout == key.layout == value.layout == torch.strided
        and dtype == key.dtype == value.dtype
        and dtype in DTYPES
        and query.device == key.device == value.device
        and not beyond_one_gradient()
        and not kernels_are_faster(query, key, value)
        and (scale is None or (isinstance(scale, float) and -math.inf < scale < math.inf))
    ):
        factor = 1 / shape[3] if scale is None else scale
        if query.is_cpu and not torch.is_autocast_enabled("cpu"):  # a context manager takes a microsecond
            return attend_pairs(query, key, value, is_causal, factor)
        with no_autocast(query.device.type):
            return attend_pairs(query, key, value, is_causal, factor)
    return None


def _differ_in_length_alone(shape: Sequence[int], other: Sequence[int]) -> bool:
    return len(shape) == len(other) and shape[:-2] == other[:-2] and shape[-1] == other[-1]


def is_fused(given: CallArguments) -> bool:
    """Whether PyTorch's own fused kernel computes the call.

    It does at order 2 with no mask except the causal mask, unless our kernels are faster.
    """
    plain = len(given.keys) == 1 and given.query_offset == 0 and given.windows == (None,)
    if not plain or any(mask is not None for mask in given.key_masks):
        return False
    query, key, value = given.query, given.keys[0], given.values[0]
    sizes = (query.shape[-2], key.shape[-2], value.shape[-1])
    return 0 not in sizes and query.shape[-1] == value.shape[-1] and not kernels_are_faster(query, key, value)


def fused_attention(given: CallArguments) -> Tensor | None:
    """Order 2 by PyTorch's own fused kernel; None if PyTorch has no fused kernel for the call."""
    if beyond_one_gradient() or not is_fused(given):
        return None
    (key,), (value,) = given.keys, given.values
    with no_autocast(given.query.device.type):
        if given.query.dim() == 4 and given.query.shape[:2] == key.shape[:-2] == value.shape[:-2]:
            return attend_pairs(given.query, key, value, given.is_causal, given.scale)
        call = flattened(given)
        q, k, v = (x.unsqueeze(0) for x in call.tensors)  # in any other shape PyTorch does not fuse
        out = attend_pairs(q, k, v, given.is_causal, given.scale)
    return None if out is None else call.shaped(out.squeeze(0))


def operator_call(
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    masks: Sequence[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: Sequence[int],
    scale: float,
) -> Call:
    """The call that the arguments of an operator make; a window of 0 means no window.

    Raises:
        ArgumentError: Some key sets have a mask and others have None.
    """
    positions = Positions(is_causal, offset, tuple(window or None for window in windows))
    key_masks = tuple(mask for mask in masks if mask is not None)
    if key_masks and len(key_masks) != len(keys):
        raise ArgumentError("masks", expected="a mask for every key set, or for none", got=f"{len(key_masks)} masks")
    return Call(query, tuple(keys), tuple(values), key_masks, positions, scale)


def _attend(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output (H, L_q, d_v) and log-sum-exp (H, L_q); a window of 0 means no window."""
    with no_autocast(query.device.type):
        return guarded.forward(operator_call(query, keys, values, masks, is_causal, offset, windows, scale))


def _attended(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    dtype = query.dtype if query.dtype == torch.float64 else torch.float32
    out = query.new_empty(query.shape[0], query.shape[1], values[0].shape[2])
    return out, query.new_empty(query.shape[:2], dtype=dtype)


attend = operator_of_heads(_attend, fake=_attended)


def _attend_backward(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor,
    grad_lse: Tensor,
) -> list[Tensor]:
    """The gradients of query, keys and values, in this order, in one list."""
    call = operator_call(query, keys, values, masks, is_causal, offset, windows, scale)
    with no_autocast(query.device.type):
        dq, dks, dvs = guarded.backward(call, out, lse, grad_out, grad_lse)
    return [dq, *dks, *dvs]


def _gradients(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in (query, *keys, *values)]


attend_backward = operator_of_heads(_attend_backward, fake=_gradients)


def _attend_tangents(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
    out: Tensor,
    lse: Tensor,
    query_tangent: Tensor,
    key_tangents: list[Tensor],
    value_tangents: list[Tensor],
) -> tuple[Tensor, Tensor]:
    """The tangents of output and log-sum-exp."""
    call = operator_call(query, keys, values, masks, is_causal, offset, windows, scale).widened()
    moved = operator_call(
        query_tangent, key_tangents, value_tangents, masks, is_causal, offset, windows, scale
    ).widened()
    with no_autocast(query.device.type):
        changes = (moved.query, moved.keys, moved.values)
        out_dot, lse_dot = guarded.tangents(call, out.to(call.query.dtype), lse, changes)
    return out_dot.to(query.dtype), lse_dot


attend_tangents = operator_of_heads(_attend_tangents, fake=_attended)


def _backward(arguments: list[Any], results: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    gradients: list[Tensor] = attend_backward(*arguments, *results, *grads)
    return gradients


def _forward(arguments: list[Any], results: list[Tensor], changes: list[Tensor]) -> list[Any]:
    sets = len(arguments[1])
    return [*arguments, *results, changes[0], changes[1 : 1 + sets], changes[1 + sets : 1 + 2 * sets]]


differentiable(attend, backward=_backward, forward=_forward, tangents=attend_tangents)
differentiable_by(attend_backward, by_reference.attend_backward)
differentiable_by(attend_tangents, by_reference.attend_tangents)
decomposable(attend, by_reference.attend, fake=_attended)
register_flop_formulas()
