"""Exact order-k attention as PyTorch operators: what autograd, `torch.compile` and `torch.func` see of `blocks`.

`separatrix::attend` takes heads in one leading dimension, query (H, L_q, d), and gives the output and the
log-sum-exp; `separatrix::attend_backward` is its gradient, recomputed block by block. The gradient of the gradient
goes through the reference, which holds the whole volume, so it is for small sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention import guarded, reference
from separatrix.attention.arguments import DTYPES, Call
from separatrix.attention.fused import attend_pairs
from separatrix.attention.precision import no_autocast
from separatrix.attention.registration import operator
from separatrix.attention.schedule import Positions
from separatrix.attention.tiling import Problem
from separatrix.errors import SeparatrixError

DOUBLE_BACKWARD_VOLUME = 1 << 22
"""The largest H * L_q * L_1 * ... * L_{k-1} for which second derivatives are computed."""


def exact_attention(call: Call) -> tuple[Tensor, Tensor]:
    """The output (..., L_q, d_v) and the log-sum-exp (..., L_q) of a checked call."""
    batch, query, keys, values, masks = flatten_heads(call)
    windows = [0 if window is None else window for window in call.windows]
    options = (len(keys), call.is_causal, call.query_offset, windows, call.scale)
    out, lse = _differentiable_attend(options, query, *keys, *values, *masks)
    return out.reshape(*batch, *out.shape[1:]), lse.reshape(*batch, lse.shape[1])


def plain_attention(query: object, key: object, value: object, scale: object) -> Tensor | None:
    """Ordinary attention by PyTorch's fused kernel where nothing else is left to check; None where something may be.

    The checks of a call take longer than attention of a few short heads.
    """
    if (
        isinstance(query, Tensor)
        and isinstance(key, Tensor)
        and isinstance(value, Tensor)
        and query.dim() == 4
        and key.shape == value.shape
        and query.shape[:2] == key.shape[:2]
        and query.shape[3] == key.shape[3]
        and query.dtype == key.dtype == value.dtype
        and query.dtype in DTYPES
        and query.device == key.device == value.device
        and query.numel()
        and key.numel()
        and (scale is None or (isinstance(scale, float) and math.isfinite(scale)))
    ):
        scale = 1 / query.shape[3] if scale is None else scale
        with no_autocast(query.device.type):
            return attend_pairs(query, key, value, False, scale)
    return None


def is_fused(call: Call) -> bool:
    """Whether PyTorch's own fused kernel has the call: at order 2, with nothing hidden but by causality."""
    plain = call.order == 2 and call.query_offset == 0 and call.windows == (None,) and call.key_masks == (None,)
    sizes = (call.query.shape[-2], call.keys[0].shape[-2], call.values[0].shape[-1])
    return plain and 0 not in sizes and call.query.shape[-1] == call.values[0].shape[-1]


def fused_attention(call: Call) -> Tensor | None:
    """Order 2 by PyTorch's own fused kernel, where it has one for the call; None where it has not."""
    if not is_fused(call):
        return None
    (key,), (value,) = call.keys, call.values
    with no_autocast(call.query.device.type):
        if call.query.dim() == 4 and call.query.shape[:2] == key.shape[:-2] == value.shape[:-2]:
            return attend_pairs(call.query, key, value, call.is_causal, call.scale)
        batch, query, keys, values, _ = flatten_heads(call)
        q, k, v = (x.unsqueeze(0) for x in (query, keys[0], values[0]))  # in any other shape PyTorch does not fuse
        out = attend_pairs(q, k, v, call.is_causal, call.scale)
    return None if out is None else out.reshape(*batch, *out.shape[-2:])


Flat = tuple[tuple[int, ...], Tensor, list[Tensor], list[Tensor], list[Tensor]]


def flatten_heads(call: Call) -> Flat:
    """The batch shape, then query, keys, values and masks broadcast to it, each with one leading dimension.

    There is a mask for each set, or none at all.
    """
    heads = call.query.shape[-3] if call.enable_gqa else None

    def spread(x: Tensor) -> Tensor:
        return x if heads is None else x.repeat_interleave(heads // x.shape[-3], dim=-3)

    keys, values = [spread(key) for key in call.keys], [spread(value) for value in call.values]
    shapes = {call.query.shape[:-2], *(x.shape[:-2] for x in (*keys, *values))}
    batch = shapes.pop() if len(shapes) == 1 else torch.broadcast_shapes(*shapes)  # which imports sympy, half a second
    count = math.prod(batch)

    def flat(x: Tensor) -> Tensor:
        whole = x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:])
        return whole.reshape(count, *x.shape[-2:])

    masks = []
    if any(mask is not None for mask in call.key_masks):
        for mask, key in zip(call.key_masks, keys, strict=True):
            mask = key.new_ones(key.shape[-2], dtype=torch.bool) if mask is None else mask
            masks.append(mask.expand(*batch, -1).reshape(count, key.shape[-2]))
    return tuple(batch), flat(call.query), [flat(x) for x in keys], [flat(x) for x in values], masks


def _problem(
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    masks: Sequence[Tensor],
    is_causal: bool,
    offset: int,
    windows: Sequence[int],
    scale: float,
) -> Problem:
    """Half types are computed in float32; what a mask hides is zeroed, so that not even a NaN gets out."""

    def shown(sets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if not masks:
            return tuple(x.to(dtype) for x in sets)
        return tuple(x.to(dtype).masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, masks, strict=True))

    dtype = query.dtype if query.dtype == torch.float64 else torch.float32
    return Problem(
        query.to(dtype),
        shown(keys),
        shown(values),
        tuple(masks),
        Positions(is_causal, offset, tuple(window or None for window in windows)),
        scale,
    )


def _attend(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output (H, L_q, d_v) and log-sum-exp (H, L_q); a window of 0 is none."""
    with no_autocast(query.device.type):
        return guarded.forward(_problem(query, keys, values, masks, is_causal, offset, windows, scale), query.dtype)


def _attended(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    dtype = query.dtype if query.dtype == torch.float64 else torch.float32
    out = query.new_empty(query.shape[0], query.shape[1], values[0].shape[2])
    return out, query.new_empty(query.shape[:2], dtype=dtype)


attend = operator(_attend, fake=_attended)


def _attend_backward(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor],
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
    problem = _problem(query, keys, values, masks, is_causal, offset, windows, scale)
    dtype = problem.query.dtype
    with no_autocast(query.device.type):
        dq, dks, dvs = guarded.backward(problem, out.to(dtype), lse, grad_out.to(dtype), grad_lse)
    for m, mask in enumerate(masks):
        dks[m], dvs[m] = (x.masked_fill(~mask.unsqueeze(-1), 0.0) for x in (dks[m], dvs[m]))
    return [x.to(query.dtype, memory_format=torch.contiguous_format, copy=True) for x in (dq, *dks, *dvs)]


def _gradients(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in (query, *keys, *values)]


attend_backward = operator(_attend_backward, fake=_gradients)


Options = tuple[int, bool, int, list[int], float]
"""The number of key sets, then the plain arguments of the operators."""


def _arguments(options: Options, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """The operators' arguments from a Function's: query, keys, values and masks in one row behind the options."""
    n, *plain = options
    return tensors[0], list(tensors[1 : 1 + n]), list(tensors[1 + n : 1 + 2 * n]), list(tensors[1 + 2 * n :]), *plain


class Attend(torch.autograd.Function):
    """`attend` for autograd and `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(options: Options, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = attend(*_arguments(options, tensors))
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.options, *tensors = inputs
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Any, ...]:
        out, lse, *tensors = ctx.saved_tensors
        if torch.compiler.is_compiling():  # a graph of first derivatives: no Function within a Function
            grads = attend_backward(*_arguments(ctx.options, tensors), out, lse, grad_out, grad_lse)
        else:
            grads = _differentiable_backward(ctx.options, out, lse, grad_out, grad_lse, *tensors)
        return None, *grads, *[None] * (len(tensors) - len(grads))


class AttendBackward(torch.autograd.Function):
    """`attend_backward` for autograd and `torch.func`; its own gradient is the reference's."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        options: Options, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        return tuple(attend_backward(*_arguments(options, tensors), out, lse, grad_out, grad_lse))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.options, _, _, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """out and lse are functions of the other inputs, so they get no gradient of their own."""
        grad_out, grad_lse, *tensors = ctx.saved_tensors
        query, keys, values, masks, is_causal, offset, windows, scale = _arguments(ctx.options, tensors)
        volume = math.prod((query.shape[0], query.shape[1], *(key.shape[1] for key in keys)))
        if volume > DOUBLE_BACKWARD_VOLUME:
            raise SeparatrixError(
                "The second derivative of exact attention is computed by the reference, for at most "
                f"{DOUBLE_BACKWARD_VOLUME} entries of the attention tensor; this call has {volume}."
            )

        def weighted_sum(grad_out: Tensor, grad_lse: Tensor, query: Tensor, *sets: Tensor) -> Tensor:
            out, lse = reference.tensor_attention(
                query,
                sets[: len(keys)],
                sets[len(keys) :],
                is_causal=is_causal,
                query_offset=offset,
                key_masks=masks or None,
                windows=[window or None for window in windows],
                scale=scale,
            )
            return (out * grad_out).sum() + (lse.masked_fill(lse == -torch.inf, 0.0) * grad_lse).sum()

        leaves = (grad_out, grad_lse, query, *keys, *values)
        first = torch.func.grad(weighted_sum, argnums=tuple(range(2, len(leaves))))
        second = torch.func.vjp(first, *leaves)[1](tuple(grads))
        return None, None, None, *second, *[None] * len(masks)


_differentiable_attend: Callable[..., tuple[Tensor, Tensor]] = Attend.apply
_differentiable_backward: Callable[..., tuple[Tensor, ...]] = AttendBackward.apply


def _with_batch(batch: int, x: Tensor, dim: int | None) -> Tensor:
    """The vmapped dimension, or a copy of the tensor for each of it, folded into the heads."""
    x = x.expand(batch, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.reshape(-1, *x.shape[2:])


def _vmap(operator: Any, tensors: Sequence[int]) -> Any:
    """The batching rule of an operator whose arguments at `tensors` are tensors, the rest plain."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        def fold(x: Any, dim: Any) -> Any:
            if isinstance(x, (list, tuple)):
                dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(x)
                return [_with_batch(info.batch_size, each, where) for each, where in zip(x, dims, strict=True)]
            return _with_batch(info.batch_size, x, dim)

        folded = [
            fold(x, dim) if index in tensors or index < 4 else x
            for index, (x, dim) in enumerate(zip(arguments, in_dims, strict=True))
        ]
        results = operator(*folded)
        unfolded = [x.unflatten(0, (info.batch_size, -1)) for x in results]
        return (
            (tuple(unfolded), (0,) * len(unfolded)) if isinstance(results, tuple) else (unfolded, [0] * len(unfolded))
        )

    return rule


torch.library.register_vmap(attend, _vmap(attend, ()))
torch.library.register_vmap(attend_backward, _vmap(attend_backward, (8, 9, 10, 11)))
