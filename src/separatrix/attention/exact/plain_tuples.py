"""Exact attention by our kernels on plain tensors of the CPU: checked once, and computed without the dispatcher.

PyTorch's dispatcher, the checks that word error messages, and autograd's records of reshaped inputs take several times
as long as attention of a few short heads. Calls that may need any of these are left to `operators`, which returns the
same results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arguments import DTYPES, LARGEST_OFFSET
from separatrix.attention.call import Call, Positions
from separatrix.attention.exact import guarded
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact.fused import kernels_are_faster
from separatrix.attention.exact.native import PlainCall
from separatrix.attention.exact.operators import attend_backward, needs_numbers_alone, operands

FEW_PRODUCTS = 5 * 10**11
"""Calls with more multiply-adds run for seconds, so that the time of the checks is negligible, and they may need a
warning."""
LONGEST_WINDOW = 2**63 - 1
"""The longest window that the operators and the kernels represent."""
_PLAIN = (Tensor, torch.nn.Parameter)

Masks = tuple[Tensor | None, ...]


def plain_tuples(*arguments: object, **options: object) -> tuple[Tensor, Tensor] | None:
    """The output and the log-sum-exp if the arguments, those of `plain_call`, need no further check; otherwise None.

    The result is also None at order 2 where PyTorch's fused attention is faster.
    """
    plain = plain_call(*arguments, **options)
    if plain is None or (len(plain.masks) == 1 and not kernels_are_faster(*plain.tensors)):
        return None
    tensors, masks, *rest = plain
    if wants_gradient(plain):
        return _record(masks, tuple(rest), *tensors)
    return _attend(plain)[:2]


def wants_gradient(plain: PlainCall) -> bool:
    """Whether autograd records the computation."""
    return torch.is_grad_enabled() and any([x.requires_grad for x in plain.tensors])


def plain_call(
    query: object,
    keys: object,
    values: object,
    is_causal: object = False,
    scale: object = None,
    query_offset: object = 0,
    key_masks: object = None,
    windows: object = None,
    enable_gqa: object = False,
) -> PlainCall | None:
    """The call if its arguments need no further check and no transform of PyTorch must see it; otherwise None.

    Leading dimensions of keys and values are not broadcast, except for heads with `enable_gqa`. The leading dimensions
    of masks are broadcast.
    """
    if type(keys) in _PLAIN and type(values) in _PLAIN:
        keys, values = (keys,), (values,)
    if torch.compiler.is_compiling() or not (isinstance(keys, (list, tuple)) and isinstance(values, (list, tuple))):
        return None
    tensors: tuple[Any, ...] = (query, *keys, *values)
    sets = len(keys)
    if not sets or len(values) != sets or torch.is_autocast_enabled("cpu"):
        return None
    if type(is_causal) is not bool or type(enable_gqa) is not bool or type(query_offset) is not int:
        return None
    if not -LARGEST_OFFSET <= query_offset <= LARGEST_OFFSET:
        return None
    shared = _sharing_heads(tensors, sets, is_causal and query_offset == 0, enable_gqa)
    if not shared or not needs_numbers_alone(tensors):
        return None
    factor = 1 / tensors[0].shape[-1] if scale is None else scale
    if not isinstance(factor, float) or not -math.inf < factor < math.inf:
        return None
    none = (None,) * sets
    spans = none if windows is None else _windows(windows, sets)
    masks, mask_shared = (none, shared) if key_masks is None else _masks(key_masks, tensors, sets, shared)
    if spans is None or masks is None:
        return None
    return PlainCall(tensors, masks, Positions(is_causal, query_offset, spans), factor, shared, mask_shared)


def _sharing_heads(tensors: tuple[Any, ...], sets: int, equal_lengths: bool = False, enable_gqa: bool = False) -> int:
    """The number of query heads that share a key head; 0 unless the tensors are plain and have matching shapes.

    If the result is not 0, the tensors are on the CPU and not empty, and have one dtype and the same leading dimensions
    except for shared heads.
    """
    query, value = tensors[0], tensors[-1]
    dtype, dims = getattr(query, "dtype", None), getattr(query, "ndim", 0)
    for x in tensors:
        if type(x) not in _PLAIN or not x.is_cpu or x.is_nested or x.layout != torch.strided:
            return 0
        if x.dtype != dtype or x.ndim != dims:
            return 0
    if dtype not in DTYPES or dims < (3 if enable_gqa else 2):
        return 0
    *batch, length, d = query.shape
    d_v, tuples, shared = value.shape[-1], math.prod(query.shape[:-1]), 1
    if enable_gqa:
        heads, batch[-1] = batch[-1], value.shape[-3]
        shared = 0 if batch[-1] == 0 or heads % batch[-1] else heads // batch[-1]
    for key, of_key in zip(tensors[1 : sets + 1], tensors[sets + 1 :], strict=True):
        count = key.shape[-2]
        if (
            key.shape != (*batch, count, d)
            or of_key.shape != (*batch, count, d_v)
            or (equal_lengths and count != length)
        ):
            return 0
        tuples *= count
    return shared if d > 0 and d_v > 0 and 0 < tuples * (d + d_v) <= FEW_PRODUCTS else 0


def _windows(windows: object, sets: int) -> tuple[int | None, ...] | None:
    """The window of each key set; None unless all are in the range that the kernels represent."""
    spans = (windows,) * sets if type(windows) is int else windows
    if not isinstance(spans, (list, tuple)) or len(spans) != sets:
        return None
    for window in spans:
        if window is not None and not (type(window) is int and 1 <= window <= LONGEST_WINDOW):
            return None
    return tuple(spans)


def _masks(key_masks: object, tensors: tuple[Tensor, ...], sets: int, shared: int) -> tuple[Masks | None, int]:
    """The masks as `PlainCall` takes them, and how many query heads share a head of masks; None if the masks do not
    have this form."""
    given = (key_masks,) * sets if isinstance(key_masks, Tensor) else key_masks
    if not isinstance(given, (list, tuple)) or len(given) != sets:
        return None, shared
    batch, of_queries = tensors[0].shape[:-2], False
    for mask, key in zip(given, tensors[1 : sets + 1], strict=True):
        if mask is None:
            continue
        if type(mask) is not Tensor or mask.dtype != torch.bool or not mask.is_cpu or mask.is_nested:
            return None, shared
        *leading, length = mask.shape if mask.layout == torch.strided and mask.ndim else (-1,)
        if length != key.shape[-2] or len(leading) > len(batch):
            return None, shared
        if any(size not in (1, room) for size, room in zip(leading[::-1], batch[::-1], strict=False)):
            return None, shared
        of_queries |= bool(leading) and leading[-1] > 1
    if of_queries:
        shared = 1
    heads = batch if shared == 1 else (*batch[:-1], batch[-1] // shared)
    if isinstance(key_masks, Tensor):
        return (_heads_in_rows(key_masks, heads),) * sets, shared
    return tuple([None if mask is None else _heads_in_rows(mask, heads) for mask in given]), shared


def _heads_in_rows(mask: Tensor, heads: tuple[int, ...]) -> Tensor:
    """A mask (heads, L) that broadcasts to these leading dimensions, or (L,) if it is the same for all of them."""
    length = mask.shape[-1]
    if mask.numel() == length:
        return mask if mask.ndim == 1 else mask.reshape(length)
    return mask.expand(*heads, length).reshape(-1, length)


def _call(plain: PlainCall) -> Call:
    """The call with its heads in one dimension."""
    tensors, sets, dims = plain.tensors, len(plain.masks), plain.tensors[0].dim()
    if dims != 3:
        tensors = tuple(x.flatten(0, -3) if dims > 3 else x.unsqueeze(0) for x in tensors)
    keys, masks = tensors[1 : sets + 1], []
    if any(mask is not None for mask in plain.masks):
        heads = tensors[0].shape[0] // plain.mask_shared
        for mask, key in zip(plain.masks, keys, strict=True):
            mask = key.new_ones(key.shape[1], dtype=torch.bool) if mask is None else mask
            masks.append(mask.expand(heads, -1))
    return Call(tensors[0], keys, tensors[sets + 1 :], tuple(masks), plain.positions, plain.scale)


def _attend(plain: PlainCall) -> tuple[Tensor, Tensor, bool]:
    """The output, the log-sum-exp, and whether the backward pass of the kernels supports the call."""
    if _for_kernels(plain.tensors):
        results = plain.forward()
        if results is not None:
            return results
    out, lse = guarded.forward(_call(plain))
    leading = plain.tensors[0].shape[:-1]
    return out.view(*leading, out.shape[-1]), lse.view(leading), False


def _for_kernels(tensors: tuple[Tensor, ...]) -> bool:
    """Whether there are native kernels for the tensors."""
    return native_backend.has_kernels(len(tensors) // 2)


class _PlainTuples(torch.autograd.Function):
    """Attention with a gradient. Its own derivative is that of `attend_backward`, which PyTorch's dispatcher knows."""

    @staticmethod
    def forward(ctx: Any, masks: Masks, options: tuple[Any, ...], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out, lse, ctx.near_one = _attend(PlainCall(tensors, masks, *options))
        ctx.save_for_backward(*tensors, *masks, out, lse)
        ctx.set_materialize_grads(False)  # zeros for the log-sum-exp take as long as a small kernel
        ctx.options = options
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
        *saved, out, lse = ctx.saved_tensors  # read once: gradient checkpointing unpacks each tensor only once
        count = 2 * (len(saved) // 3) + 1
        tensors = tuple(saved[:count])
        plain = PlainCall(tensors, tuple(saved[count:]), *ctx.options)
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out
        numbers_alone = not torch.is_grad_enabled() and needs_numbers_alone(
            (*tensors, out, lse, grad_out, lse if grad_lse is None else grad_lse)
        )
        if numbers_alone and ctx.near_one:
            of_lse = None if grad_lse is None else grad_lse.contiguous()
            return None, None, *plain.backward(out.contiguous(), lse.contiguous(), grad_out.contiguous(), of_lse)
        call, incoming = _call(plain), (out, lse, grad_out, torch.zeros_like(lse) if grad_lse is None else grad_lse)
        heads, length = call.query.shape[:2]
        flat = [x.reshape(heads, length, *x.shape[lse.dim() :]) for x in incoming]
        if numbers_alone:
            query, keys, values = guarded.backward(call, *flat)
            gradients = [query, *keys, *values]
        else:
            gradients = attend_backward(*operands(call), *flat)
        return None, None, *(grad.reshape(x.shape) for grad, x in zip(gradients, tensors, strict=True))


_record: Callable[..., tuple[Tensor, Tensor]] = super(torch.autograd.Function, _PlainTuples).apply
"""`torch.autograd.Function.apply` of `_PlainTuples` without checks for torch.func, which `plain_call` has made."""
