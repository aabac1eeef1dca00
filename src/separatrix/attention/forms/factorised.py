r"""Exact attention of the pairwise form at order 3 by matrix products, with n^2 exponentials instead of n^3.

The exponential of a sum of inner products factorises. With x = scale q.k_1, y = scale k_1.k_2 and z = scale q.k_2,

    exp(x_ij + y_jm + z_im) = A_ij B_jm C_im,        N_il = sum_jm A_ij v_1,jl B_jm C_im v_2,ml,

and a further channel of v_1 = v_2 = 1 is the normaliser. For each channel l the matrix A diag(v_1,l) is multiplied by
B, and the result is contracted with C and v_2,l: n^3 d multiply-adds, all of them in matrix products. Masks, windows
and causality concern pairs of a query and a key, so they are zeros of A and of C.

*Range.* B is divided by its largest entry in every row j, exp(r_j); A_ij exp(r_j) and C by their largest entries for
every query. Then no factor exceeds 1, and the values are divided by powers of two so that no value exceeds 1 either.
Underflow in factors and products changes N_il by at most 8 n_1 n_2 tiny, where tiny is the smallest normal number. So
if a normaliser is at least 8 n_1 n_2 tiny / eps, this relative error is at most eps. The normaliser is smaller when the
keys that maximise the factors one by one are not those that maximise their product: when the two maxima differ by more
than 56 for n = 512 in float32. In that case, and if products of values exceed half of the exponent's range, or an entry
is not finite, the call is computed as the product form of dimension 3 d.

The backward pass recomputes the factors block by block, with A divided by the normaliser, and takes three matrix
products of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Unpack, overload

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from separatrix.attention.arguments import CallOptions, check_arguments
from separatrix.attention.arithmetic.device_reads import truth
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call, Range, flattened, grouped
from separatrix.attention.dispatch.registration import forward_mode
from separatrix.attention.duration import shape_of, warn_if_long
from separatrix.attention.exact.operators import exact_attention
from separatrix.attention.forms.maps import Keys, pairwise
from separatrix.attention.near_linear.cost import PYTORCH

QUERIES = 64
"""The number of queries in a block."""
ENTRIES = 2**18
"""The number of entries of the largest matrix of a block, unless a single row has more."""
LEAST_KEYS = 128
"""The smallest number of keys of each set per query; with fewer keys the product form is faster."""
LEAST_CAUSAL_KEYS = 256
"""The smallest number of keys of each set per query with causality or windows, which mask part of a block."""


@overload
def pairwise_attention(
    query: Tensor, keys: Keys, values: Keys, *, return_lse: Literal[False] = ..., **options: Unpack[CallOptions]
) -> Tensor: ...


@overload
def pairwise_attention(
    query: Tensor, keys: Keys, values: Keys, *, return_lse: Literal[True], **options: Unpack[CallOptions]
) -> tuple[Tensor, Tensor]: ...


def pairwise_attention(
    query: Tensor, keys: Keys, values: Keys, *, return_lse: bool = False, **options: Unpack[CallOptions]
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Exact attention with the pairwise scores q.k_1 + q.k_2 + k_1.k_2 (Strassen attention), fast at order 3.

    It computes ``tensor_attention(*pairwise(query, keys), values, scale=scale)`` with n^3 d multiply-adds in matrix
    products and n^2 exponentials, where the product form takes 4 n^3 d multiply-adds and n^3 exponentials. The memory
    in addition to inputs and outputs is a constant and some rows of n numbers. There are no second derivatives.

    The product form is computed instead at orders other than 3; for few keys (below 128, or 256 with causality or
    windows), where it takes less time; inside `torch.compile`, `torch.export` and `torch.func` and in forward mode; and
    where factors underflow or a number is not finite. Factors underflow where the inner products of the best tuple of a
    query are below their own maxima by more than about 56 in float32 or 650 in float64 (the docstring of
    `separatrix.attention.forms.factorised` has the condition). Results then differ by rounding only.

    Alexander Kozachinskiy and others, "Strassen Attention: Unlocking Compositional Abilities in Transformers Based on a
    New Lower Bound Method".

    Args:
        query: The queries, (..., L_q, d), not mapped.
        keys: The k-1 key sets, (..., L_m, d) each, not mapped.
        values: The k-1 value sets, (..., L_m, d_v) each.
        return_lse: Whether to return the log-sum-exp of the scores as well.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa` of `tensor_attention`.
            **scale=None is 1/d** of the dimension d of `query`.

    Returns:
        The output, (..., L_q, d_v), or with ``return_lse`` a pair of output and log-sum-exp.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v1, v2 = torch.randn(5, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> out = pairwise_attention(q, [k1, k2], [v1, v2], is_causal=True)
        >>> mapped = tensor_attention(*pairwise(q, [k1, k2]), [v1, v2], is_causal=True, scale=1 / 4)
        >>> torch.allclose(out, mapped)
        True
    """
    given = check_arguments(query, keys, values, **options)
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or forward_mode()
    result = None if transformed or len(given.keys) != 2 else _factorised(flattened(given))
    if result is None:
        mapped = pairwise(given.query, given.keys)
        options["scale"] = given.scale
        call = grouped(check_arguments(*mapped, given.values, **options))
        warn_if_long(call)
        result = exact_attention(call)
    return result if return_lse else result[0]


def _factorised(call: Call) -> tuple[Tensor, Tensor] | None:
    """The output and the log-sum-exp of a call of order 3; None if factors underflow, or there are too few keys."""
    least = LEAST_CAUSAL_KEYS if call.positions.is_causal or call.positions.has_window else LEAST_KEYS
    if call.is_empty or min(call.positions.reaches(call.key_lengths)) < least:
        return None
    warn_if_long(call, _estimated_seconds)
    wide = call.widened()
    with no_autocast(wide.query.device.type):
        out, lse, in_range = _Attend.apply(wide, *wide.tensors)  # type: ignore[no-untyped-call]
    if not truth(in_range):
        return None
    return call.shaped(out.to(call.query.dtype)), call.shaped(lse)


def _estimated_seconds(call: Call) -> float:
    """The estimated seconds of the forward pass: one multiply-add in a matrix product per tuple and channel."""
    shape = shape_of(call)
    flops = 2 * shape.scores * (shape.d_v + 1)
    return PYTORCH.exact_flop * flops * (2.2 if call.query.dtype == torch.float64 else 1.0) * 1e-9


class _QueryBlock(NamedTuple):
    """Heads and queries that are computed together, and the keys of both sets that any of these queries may attend."""

    heads: slice
    queries: Range
    first: Range
    second: Range


def _blocks(call: Call) -> Iterator[_QueryBlock]:
    """The blocks of a call, without those whose queries precede or follow all keys of a set."""
    heads, length = call.query.shape[:2]
    longest = max(*call.positions.reaches(call.key_lengths))
    together = max(1, ENTRIES // (min(length, QUERIES) * longest * (call.values[0].shape[2] + 1)))
    for head in range(0, heads, together):
        for start in range(0, length, QUERIES):
            queries = (start, min(start + QUERIES, length))
            ranges = []
            for m, keys in enumerate(call.key_lengths):
                first, last = (call.positions.visible(m, query, keys) for query in (queries[0], queries[1] - 1))
                ranges.append((first[0], max(first[0], last[1])))
            if all(start < stop for start, stop in ranges):
                yield _QueryBlock(slice(head, head + together), queries, *ranges)


@dataclass
class _Factors:
    """The factors of one block, for one tile of the first key set at a time.

    `C` is exp(z - largest_z), (H, queries, n_2). `tiles` yields the range of a tile, its B, (H, tile, n_2), and x + r,
    (H, queries, tile).
    """

    call: Call
    block: _QueryBlock

    def __post_init__(self) -> None:
        self.query = self.call.query[self.block.heads, slice(*self.block.queries)]
        self.second = self.call.keys[1][self.block.heads, slice(*self.block.second)]
        z = self._scores(self.query, self.second).masked_fill_(~self._allowed(1, self.block.second), -torch.inf)
        self.largest_z = z.amax(-1, keepdim=True)
        self.C = (z - _finite(self.largest_z)).exp_()

    def _scores(self, vectors: Tensor, keys: Tensor) -> Tensor:
        return (vectors * self.call.scale) @ keys.mT

    def _mask(self, m: int, keys: Range) -> Tensor | None:
        mask = self.call.mask_of_each[m]
        return None if mask is None else mask[self.block.heads, slice(*keys)]

    def _allowed(self, m: int, keys: Range) -> Tensor:
        """A mask (H or 1, queries, keys), True where a query of the block may attend one of these keys of set m."""
        places = torch.arange(*keys, device=self.call.query.device)
        allowed = self.call.positions.allowed(m, self.block.queries, places).unsqueeze(0)
        mask = self._mask(m, keys)
        return allowed if mask is None else allowed & mask.unsqueeze(1)

    def tiles(self) -> Iterator[tuple[Range, Tensor, Tensor]]:
        start, stop = self.block.first
        size = max(16, ENTRIES // max(self.second.shape[1], 1))
        mask = self._mask(1, self.block.second)
        for begin in range(start, stop, size):
            tile = (begin, min(begin + size, stop))
            first = self.call.keys[0][self.block.heads, slice(*tile)]
            y = self._scores(first, self.second)
            if mask is not None:
                y.masked_fill_(~mask.unsqueeze(1), -torch.inf)
            r = _finite(y.amax(-1, keepdim=True))
            x = self._scores(self.query, first) + r.mT
            yield tile, (y - r).exp_(), x.masked_fill_(~self._allowed(0, tile), -torch.inf)

    def channels(self, count: int) -> Iterator[slice]:
        heads, queries, _ = self.query.shape
        rows = heads * queries * max(self.second.shape[1], self.block.first[1] - self.block.first[0])
        together = max(1, ENTRIES // max(rows, 1))
        for start in range(0, count, together):
            yield slice(start, min(start + together, count))


def _finite(largest: Tensor) -> Tensor:
    """Replace -inf, the maximum over no scores, by 0."""
    return largest.masked_fill(largest == -torch.inf, 0.0)


def _scaled_values(value: Tensor) -> tuple[Tensor, Tensor]:
    """Values (H, d_v + 1, L) divided by powers of two (H, 1, d_v) so that none exceeds 1, and a channel of ones."""
    power = _power_above(value.abs().amax(1, keepdim=True))
    scaled = torch.cat([value / power, torch.ones_like(value[..., :1])], -1)
    return scaled.mT.contiguous(), power


def _power_above(largest: Tensor) -> Tensor:
    """For each number x >= 0 the power of two in (x, 2 x]; 1 for x = 0."""
    mantissa, exponent = torch.frexp(largest)
    return torch.ldexp(torch.ones_like(mantissa), exponent)


class _Attend(torch.autograd.Function):
    """Output (H, L_q, d_v), log-sum-exp (H, L_q), and whether every entry is in the range in the module's docstring."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, powers = zip(*(_scaled_values(value) for value in call.values), strict=True)
        heads, length, _ = call.query.shape
        out = call.query.new_zeros(heads, length, values[0].shape[1] - 1)
        lse = call.query.new_full((heads, length), -torch.inf)
        kind = torch.finfo(out.dtype)
        least = 8.0 * call.key_lengths[0] * call.key_lengths[1] * kind.tiny / kind.eps
        in_range = torch.ones((), dtype=torch.bool, device=out.device)
        for block in _blocks(call):
            place = (block.heads, slice(*block.queries))
            out[place], lse[place], fits = _attend_block(call, block, values, least)
            in_range &= fits
        power = powers[0] * powers[1]
        out = out * power
        in_range &= ((power > kind.tiny**0.5) & (power < kind.max**0.5)).all() & out.isfinite().all()
        ctx.save_for_backward(*tensors, *call.masks, out, lse)
        ctx.mark_non_differentiable(in_range)
        ctx.call = (call.positions, call.scale)
        return out, lse, in_range

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        *saved, out, lse = ctx.saved_tensors
        query, first, second, value_1, value_2 = saved[:5]
        call = Call(query, (first, second), (value_1, value_2), tuple(saved[5:]), *ctx.call)
        with no_autocast(query.device.type):
            return None, *_gradients(call, out, lse, grad_out, grad_lse)


def _attend_block(
    call: Call, block: _QueryBlock, values: tuple[Tensor, ...], least: float
) -> tuple[Tensor, Tensor, Tensor]:
    """A block's output, divided by the powers of the values, its log-sum-exp, and whether the output is in range."""
    factors = _Factors(call, block)
    V1, V2 = values[0][block.heads], values[1][block.heads, :, slice(*block.second)]
    sums = factors.query.new_zeros(*factors.query.shape[:2], V1.shape[1])
    largest = torch.full_like(factors.largest_z, -torch.inf)
    for tile, B, x in factors.tiles():
        before, largest = largest, torch.maximum(largest, x.amax(-1, keepdim=True))
        A = (x - _finite(largest)).exp_()
        sums *= (before - _finite(largest)).exp_()
        for channels in factors.channels(V1.shape[1]):
            M = _product(_times_values(A, V1[:, channels, slice(*tile)]), B)
            M = M.unflatten(1, (-1, A.shape[1])).mul_(factors.C.unsqueeze(1))
            sums[..., channels] += M.mul_(V2[:, channels].unsqueeze(2)).sum(-1).mT
    norm = sums[..., -1:]
    empty = (largest == -torch.inf) | (factors.largest_z == -torch.inf)
    fits = ((norm >= least) | empty).all()
    lse = (largest + factors.largest_z + norm.log()).masked_fill(empty, -torch.inf)
    out = (sums[..., :-1] / norm).masked_fill(empty, 0.0)
    return out, lse.squeeze(-1), fits


def _times_values(A: Tensor, V: Tensor) -> Tensor:
    """A diag(v_l) for all channels l, (H, channels * queries, keys)."""
    return (A.unsqueeze(1) * V.unsqueeze(2)).flatten(1, 2)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right, batched, where `right` or its transpose is contiguous.

    PyTorch computes products of float32 by MKL, which uses AVX2 on AMD processors even if they have AVX-512. PyTorch's
    fused linear layers call oneDNN instead, which takes less than half of the time on these processors. Dispatch modes,
    such as flop counters, have no formula for the fused layers.
    """
    modes = _get_current_dispatch_mode_stack()
    linear = _onednn_linear() if left.dtype == torch.float32 and left.device.type == "cpu" and not modes else None
    if linear is None:
        return left @ right
    products = [linear(a, b.mT, None, "none", [], "") for a, b in zip(left, right, strict=True)]
    return torch.stack(products) if len(products) > 1 else products[0].unsqueeze(0)


@cache
def _onednn_linear() -> Callable[..., Tensor] | None:
    """PyTorch's operator for fused linear layers, which is private; None unless it has these arguments here, and is
    faster than a matrix product."""
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    try:
        linear = torch.ops.mkldnn._linear_pointwise.default
    except AttributeError:
        return None
    return linear if str(linear._schema) == _LINEAR else None


_LINEAR = (
    "mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y"
)


def _gradients(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> list[Tensor]:
    """The gradients of the query, of both key sets and of both value sets."""
    values, powers = zip(*(_scaled_values(value) for value in call.values), strict=True)
    of_norm = grad_lse.unsqueeze(-1) - (grad_out * out).sum(-1, keepdim=True)
    incoming = torch.cat([grad_out * (powers[0] * powers[1]), of_norm], -1).mT.contiguous()
    size = _power_above(incoming.abs().amax((1, 2), keepdim=True))
    incoming = incoming / size
    d_query, d_first, d_second = (torch.zeros_like(x) for x in (call.query, *call.keys))
    d_values = [torch.zeros_like(value) for value in values]
    for block in _blocks(call):
        factors = _Factors(call, block)
        heads, queries, C = block.heads, slice(*block.queries), factors.C
        second = slice(*block.second)
        G, V2 = incoming[heads, :, queries].unsqueeze(-1), values[1][heads, :, second].unsqueeze(2)
        log_norm = lse[heads, queries].unsqueeze(-1)
        shift = _finite(log_norm) - _finite(factors.largest_z)
        dC = torch.zeros_like(C)
        for tile, B, x in factors.tiles():
            first = slice(*tile)
            A = (x - shift).exp_().masked_fill_(log_norm == -torch.inf, 0.0)
            dA, dB = torch.zeros_like(A), torch.zeros_like(B)
            for channels in factors.channels(G.shape[1]):
                V1 = values[0][heads, channels, first]
                left, shape = _times_values(A, V1), (-1, A.shape[1])
                M, GV = _product(left, B).unflatten(1, shape), G[:, channels] * V2[:, channels]
                dC += (M * GV).sum(1)
                d_values[1][heads, channels, second] += (G[:, channels].mT @ M.mul_(C.unsqueeze(1))).squeeze(2)
                U = GV.mul_(C.unsqueeze(1)).flatten(1, 2)
                dB += _product(left.mT, U)
                K = _product(U, B.mT).unflatten(1, shape)
                dA += (K * V1.unsqueeze(2)).sum(1)
                d_values[0][heads, channels, first] += K.mul_(A.unsqueeze(1)).sum(2)
            dx, dy = dA.mul_(A).mul_(call.scale), dB.mul_(B).mul_(call.scale)
            key = call.keys[0][heads, first]
            d_query[heads, queries] += dx @ key
            d_first[heads, first] += dx.mT @ factors.query + dy @ factors.second
            d_second[heads, second] += dy.mT @ key
        dz = dC.mul_(C).mul_(call.scale)
        d_query[heads, queries] += dz @ factors.second
        d_second[heads, second] += dz.mT @ factors.query
    d_values = [d[:, :-1].mT / power for d, power in zip(d_values, powers, strict=True)]
    return [d * size for d in (d_query, d_first, d_second, *d_values)]
