r"""Ordinary attention by PyTorch's fused kernel, and the check that its output is correct.

The kernel does not check its inputs. Products q . k that overflow and a scale beyond float32 give NaN, or zeros that
look like a valid output; a NaN in the input may give zeros, and a NaN in a value that causality hides spreads to all
rows. If the magnitude of the scale is between 2^-40 and 2^40, a finite output without a zero in its first column is
correct within the error bound (docs/derivations/exact-attention.md). For other outputs and scales, the largest
magnitudes a, b and c of query, key and value decide. The output is correct if

- max(1, |scale|) max(1, a) max(1, b) 4 d is within the `room` of the dtype: then no intermediate product of a score
  overflows and the error of underflow is small, whether the kernel multiplies by the scale or both factors by its
  square root;
- L_k c is finite, and c well below the largest number of the output's dtype.

Otherwise `exact` computes attention by blocks, as it does from `SHORTEST` tokens on, where our kernels are faster. In a
compiled graph and under transforms such as `torch.func.grad` the choice cannot depend on tensor entries; there an
operator checks the entries and raises an error.

The kernel enforces causality by scores of -inf, which it multiplies by the scale: the scale must be positive in its
dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from separatrix.attention.arguments import DTYPES, CallArguments
from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.bounds import is_sound
from separatrix.attention.call import flattened
from separatrix.attention.dispatch.registration import beyond_one_gradient, decomposable, operator
from separatrix.attention.exact.balance import room
from separatrix.errors import SeparatrixError
from separatrix.native import native

SHORTEST, FEWEST_SCORES = {"avx512": 96, "avx512_bf16": 96, "avx512_amx": 96, "avx2": 256}, 1 << 16
"""The smallest number of queries and of keys for which our kernels compute order 2, by architecture, and the smallest
number of scores of all heads. From it to 255 queries they took 0.5 to 0.9 of the time of PyTorch's kernel with AVX-512
(Zen 5, forward and with gradients), and 1.0 to 1.4 with AVX2."""
WIDEST = {"avx512": 128, "avx512_bf16": 128, "avx512_amx": 128, "avx2": 32}
"""The largest head dimension for which our kernels compute order 2, by architecture. Up to it they took 0.2 to 0.8 of
the time of PyTorch's kernel on an AMD EPYC (Zen 5), and up to 1.0 with AVX2, forward and with gradients."""
_USUAL = (2.0**-40, 2.0**40)
"""The range of magnitudes of a scale for which the output shows whether it is correct."""


def plain_attention(query: object, key: object, value: object, is_causal: bool, scale: object) -> Tensor | None:
    """Ordinary attention by PyTorch's fused kernel if the arguments need no further check; otherwise None.

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
        and (key_shape == shape or (not is_causal and key_shape[:-2] + key_shape[-1:] == shape[:-2] + shape[-1:]))
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


def is_fused(given: CallArguments) -> bool:
    """Whether PyTorch's own fused kernel computes the call.

    The fused kernel computes order 2 with no mask except the causal mask, unless our kernels are faster.
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
        q, k, v = (x.unsqueeze(0) for x in call.tensors)  # PyTorch's fused kernel needs four dimensions
        out = attend_pairs(q, k, v, given.is_causal, given.scale)
    return None if out is None else call.shaped(out.squeeze(0))


def attend_pairs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float) -> Tensor | None:
    """Attention of (B, H, L, d) tensors, none of them empty; None if the result of the kernel may be wrong."""
    if is_causal and scale < torch.finfo(_computed_in(query)).tiny:
        return None
    out = scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)
    if not _readable(query):
        # The operator raises an error or returns zeros, so nothing is filled. Its result is used so that the
        # compiler does not remove the operator from the graph.
        (refused,) = refuse_pairs(*(x.detach() for x in (out, query, key, value)), is_causal, scale)
        return out.masked_fill(refused.view(-1, 1, 1, 1), math.nan)
    if out.is_meta or _is_sound(out, scale) or _fits([_largest(x) for x in (query, key, value)], query, key, scale):
        return out
    return None


def kernels_are_faster(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether our kernels compute order 2: outside of graphs and transforms, on the CPU, where they are faster."""
    if torch.compiler.is_compiling() or query.numel() // query.shape[-1] * key.shape[-2] < FEWEST_SCORES:
        return False  # a compiler cannot trace the rest, and the checks take as long as attention of short heads
    length = min(query.shape[-2], key.shape[-2])
    return (
        query.is_cpu
        and length >= SHORTEST.get(native().architecture, length + 1)
        and query.dtype in (torch.float32, torch.float64)
        and query.shape[-1] <= WIDEST.get(native().architecture, 0)
        and all(_readable(x) for x in (query, key, value))
    )


def _readable(x: Tensor) -> bool:
    """Whether entries of the tensor can be read: not while a graph is traced, nor inside a transform of
    `torch.func`."""
    return (
        not torch.compiler.is_compiling()
        and type(x) in (Tensor, torch.nn.Parameter)
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def _computed_in(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _largest(x: Tensor) -> float:
    """The largest magnitude; NaN if an entry is NaN."""
    least, most = x.detach().aminmax()
    return max(-number(least), number(most))


def _is_sound(out: Tensor, scale: float) -> bool:
    """Whether the output alone shows that the result is correct."""
    return _USUAL[0] <= abs(scale) <= _USUAL[1] and is_sound(out)


def _fits(sizes: Sequence[float], query: Tensor, key: Tensor, scale: float) -> bool:
    """Whether the largest magnitudes of query, key and value show that the result is correct."""
    a, b, c = sizes
    dtype = _computed_in(query)
    product = max(1.0, a) * max(1.0, b) * max(1.0, abs(scale)) * 4 * query.shape[-1]
    # A comparison with NaN is false.
    return (
        a < math.inf
        and b < math.inf
        and product <= 2.0 ** room(dtype)
        and 1.5 * c <= torch.finfo(query.dtype).max
        and 2 * key.shape[-2] * c <= torch.finfo(dtype).max
    )


def _refuse_pairs(
    out: Tensor, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float
) -> list[Tensor]:
    """Zeros (B,), or an error if the output `out` of the kernel for (B, H, L, d) tensors may be wrong."""
    if not _is_sound(out, scale):
        _look_at(query, key, value, is_causal, scale)
    return [query.new_zeros(query.shape[0], dtype=torch.bool)]


def _look_at(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float) -> None:
    sizes = {name: _largest(x) for name, x in (("query", query), ("keys", key), ("values", value))}
    if all(math.isfinite(size) for size in sizes.values()):
        if not _fits([*sizes.values()], query, key, scale):
            listed = ", ".join(f"{name} up to {size:.3g}" for name, size in sizes.items())
            raise SeparatrixError(
                f"query, keys, values, scale: {listed} and a scale of {scale:.3g} leave the range of PyTorch's fused "
                f"attention in {query.dtype}. Divide the largest of them by a power of two, or call outside of "
                "torch.compile and torch.func, where another algorithm handles such input."
            )
    elif is_causal and not (math.isfinite(sizes["keys"]) and math.isfinite(sizes["values"])):
        raise SeparatrixError(
            "keys or values: NaN or infinity, which PyTorch's fused attention propagates to queries from which "
            "is_causal hides them. Call outside of torch.compile and torch.func, where this does not happen."
        )


def _refused(out: Tensor, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float) -> list[Tensor]:
    return [query.new_empty(query.shape[0], dtype=torch.bool)]


refuse_pairs = operator(_refuse_pairs, fake=_refused)


def _refusal(out: Tensor, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float) -> list[Tensor]:
    """A mask (B,) of the outputs that must be NaN in export formats that cannot raise the errors of `refuse_pairs`."""
    # The comparison is in logarithms, because an export to ONNX loses constants beyond the range of float32.
    dtype = _computed_in(query)
    a, b, c = (x.abs().amax((0, 1, 2, 3)).to(torch.float64).log2() for x in (query, key, value))
    factor = math.log2(max(1.0, abs(scale)) * 4 * query.shape[-1])
    fits = a.clamp(min=0.0) + b.clamp(min=0.0) + factor <= room(dtype)
    fits = fits & (c + math.log2(1.5) <= math.log2(torch.finfo(query.dtype).max))
    length = torch.ones_like(key[0, 0, :, 0], dtype=torch.float64).sum()
    fits = fits & (c + (2 * length).log2() <= math.log2(torch.finfo(dtype).max))
    finite_query, finite_key, finite_value = (x.isfinite().all() for x in (query, key, value))
    refused = finite_query & finite_key & finite_value & ~fits
    if is_causal:
        refused = refused | ~(finite_key & finite_value)
    if _USUAL[0] <= abs(scale) <= _USUAL[1]:
        refused = refused & ~(out.isfinite().all() & (out.select(-1, 0) != 0).all())
    return [refused.expand(query.shape[0])]


decomposable(refuse_pairs, _refusal, fake=_refused)


def _vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[list[Tensor], list[int]]:
    """The mapped dimension is folded into the first one."""

    def fold(x: Tensor, dim: int | None) -> Tensor:
        x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        return x.flatten(0, 1)

    tensors = [fold(x, dim) for x, dim in zip(arguments[:4], in_dims[:4], strict=True)]
    (refused,) = refuse_pairs(*tensors, *arguments[4:])
    return [refused.unflatten(0, (info.batch_size, -1))], [0]


torch.library.register_vmap(refuse_pairs, _vmap)
