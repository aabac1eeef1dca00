r"""Attention to tuples (j_1, ..., j_{k-1}) of pairwise different positions.

At order 3 these are all pairs but the diagonal j_1 = j_2. The diagonal is attention of order 2 with the keys k_1 * k_2
and the values v_1 * v_2, entry by entry, and

    out = (out_all - p out_diagonal) / (1 - p),    lse = lse_all + log(1 - p),    p = exp(lse_diagonal - lse_all).

The difference multiplies rounding errors by at most (1 + p) / (1 - p), which is 3 for p = 1/2. **For a query whose
diagonal has more than half of the weight, and at orders above 3 for all queries, the tuples are computed one by one**:
all scores of a query are materialized, with -inf for tuples that are not allowed. Computing tuples one by one takes the
same number of multiply-adds, but is slower than the kernels, and its backward pass materializes the scores of all such
queries.

A compiler cannot trace a choice that depends on tensor entries. Inside `torch.compile` these queries are an operator of
their own, `separatrix::attend_one_by_one`, whose backward pass computes them again. An exported program, and
`torch.func` inside `torch.compile`, use the definition, which materializes all scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NoReturn

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.call import Call, Range, check_call
from separatrix.attention.dispatch.registration import differentiable, forward_mode, operator
from separatrix.attention.exact.operators import CALL, gradients_like, operands, operator_call
from separatrix.attention.reference import tensor_attention, tensor_scores
from separatrix.errors import SeparatrixError

SCORES = 2**22
"""The largest number of scores that are materialized at a time, unless a single query has more."""


def attend_distinct(
    attend: Callable[..., tuple[Tensor, Tensor]],
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp over tuples of pairwise different positions.

    `attend` is attention to all tuples, with scores of the product form: it takes query, keys, values and
    `CallOptions`, and returns the output and the log-sum-exp.
    """
    if len(keys) == 1:
        return attend(query, keys, values, **options)
    transformed = torch._C._are_functorch_transforms_active() or forward_mode()
    if torch.compiler.is_exporting() or (torch.compiler.is_compiling() and transformed):
        return _by_definition(query, keys, values, options)
    return _attend_distinct(attend, query, keys, values, options, transformed)


def _by_definition(
    query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(query.dtype, torch.float32)
    sets = ([x.to(wide) for x in tensors] for tensors in ([query], keys, values))
    (wide_query,), wide_keys, wide_values = sets
    out, lse = tensor_attention(wide_query, wide_keys, wide_values, distinct=True, **options)
    return out.to(query.dtype), lse


def _attend_distinct(
    attend: Callable[..., tuple[Tensor, Tensor]],
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    options: dict[str, Any],
    transformed: bool,
) -> tuple[Tensor, Tensor]:
    call = check_call(query, keys, values, **options).to(torch.float64)
    if call.is_empty:
        return attend(query, keys, values, **options)
    heads, length = call.query.shape[:2]
    wide = torch.promote_types(query.dtype, torch.float32)
    if len(keys) > 2 and torch.compiler.is_compiling():
        out, lse = attend_one_by_one(*operands(call), call.query.new_ones(heads, length, dtype=torch.bool))
    elif len(keys) > 2 or transformed:
        rows = torch.cartesian_prod(torch.arange(heads), torch.arange(length))
        out, lse = (x.unflatten(0, (heads, length)) for x in _one_by_one(call, rows.reshape(-1, 2).tolist()))
    else:
        out, lse = attend(query.to(wide), [x.to(wide) for x in keys], [x.to(wide) for x in values], **options)
        flat = out.double().reshape(heads, length, -1), lse.double().reshape(heads, length)
        out, lse = _without_diagonal(call, *flat, *_diagonal(attend, call))
    return call.shaped(out).to(query.dtype), call.shaped(lse).to(wide)


def _without_diagonal(
    call: Call, out: Tensor, lse: Tensor, of_diagonal: Tensor, lse_of_diagonal: Tensor
) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) and the log-sum-exp (H, L_q), from the results for all pairs and for the diagonal."""
    empty = lse.isneginf()
    share = (lse_of_diagonal - lse.masked_fill(empty, 0.0)).exp()
    with torch.no_grad():
        clear = (share <= 0.5) & out.isfinite().all(-1) & of_diagonal.isfinite().all(-1)
        remaining = ~clear & ~empty
    share = torch.where(clear, share, 0.0)
    away = torch.where(clear.unsqueeze(-1), out - of_diagonal, 0.0)
    out, lse = out + (share / (1 - share)).unsqueeze(-1) * away, lse + torch.log1p(-share)
    if torch.compiler.is_compiling():
        exact, exact_lse = attend_one_by_one(*operands(call), remaining)
        return torch.where(remaining.unsqueeze(-1), exact, out), torch.where(remaining, exact_lse, lse)
    rows = remaining.nonzero()
    if len(rows) == 0:
        return out, lse
    exact, exact_lse = _one_by_one(call, numbers(rows))
    return out.index_put(rows.unbind(-1), exact), lse.index_put(rows.unbind(-1), exact_lse)


def _diagonal(attend: Callable[..., tuple[Tensor, Tensor]], call: Call) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp over the pairs (j, j) of a call of order 3."""
    length, positions = min(call.key_lengths), call.positions
    windows = [window for window in positions.windows if window is not None]
    keys, values, masks = ([x[:, :length] for x in sets] for sets in (call.keys, call.values, call.masks))
    return attend(
        call.query,
        [keys[0] * keys[1]],
        [values[0] * values[1]],
        is_causal=positions.is_causal,
        query_offset=positions.offset,
        key_masks=[masks[0] & masks[1]] if masks else None,
        windows=[min(windows) if windows else None],
        scale=call.scale,
    )


def _one_by_one(call: Call, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The output (rows, d_v) and the log-sum-exp (rows,) of some queries, each given by its head and its index."""
    of_query: dict[int, list[int]] = {}
    for row, (_, query) in enumerate(rows):
        of_query.setdefault(query, []).append(row)
    results: dict[int, tuple[Tensor, Tensor]] = {}
    for query, some in of_query.items():
        ranges = [call.positions.visible(m, query, length) for m, length in enumerate(call.key_lengths)]
        together = max(1, SCORES // max(1, math.prod(stop - start for start, stop in ranges)))
        for first in range(0, len(some), together):
            chunk = some[first : first + together]
            outs, lses = _query(call, query, [rows[row][0] for row in chunk], ranges)
            results.update(zip(chunk, zip(outs, lses, strict=True), strict=True))
    if not results:
        return call.query.new_empty(0, call.values[0].shape[2]), call.query.new_empty(0)
    in_order = [results[row] for row in range(len(rows))]
    return torch.stack([out for out, _ in in_order]), torch.stack([lse for _, lse in in_order])


def _attend_one_by_one(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) and the log-sum-exp (H, L_q) of chosen queries, and zeros for the others.

    The arguments are those of a call, followed by a mask (H, L_q) of the chosen queries.
    """
    *of_call, chosen = arguments
    call, rows = operator_call(*of_call), chosen.nonzero()
    out = call.query.new_zeros(*chosen.shape, call.values[0].shape[-1])
    outs, lses = _one_by_one(call, numbers(rows))
    return out.index_put(rows.unbind(-1), outs), out.new_zeros(chosen.shape).index_put(rows.unbind(-1), lses)


def _empty_results(query: Tensor, keys: list[Tensor], values: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    return query.new_empty(*query.shape[:2], values[0].shape[2]), query.new_empty(query.shape[:2])


def _attend_one_by_one_backward(
    query: Tensor, keys: list[Tensor], values: list[Tensor], *arguments: Any
) -> list[Tensor]:
    """The gradients of query, keys and values, in this order, in one list."""
    *options, grad_out, grad_lse = arguments
    leaves = [x.detach().requires_grad_() for x in (query, *keys, *values)]
    with torch.enable_grad():
        results = _attend_one_by_one(leaves[0], leaves[1 : 1 + len(keys)], leaves[1 + len(keys) :], *options)
    if not results[0].requires_grad:  # no query was chosen
        return [torch.zeros_like(x) for x in leaves]
    return list(torch.autograd.grad(results, leaves, [grad_out, grad_lse], materialize_grads=True))


def _no_forward_mode(*_: object) -> NoReturn:
    raise SeparatrixError("attention to distinct tuples has no forward mode inside this compiled function")


attend_one_by_one = operator(
    _attend_one_by_one, fake=_empty_results, schema=f"({CALL}, Tensor chosen) -> (Tensor, Tensor)"
)
attend_one_by_one_backward = operator(
    _attend_one_by_one_backward,
    fake=gradients_like,
    schema=f"({CALL}, Tensor chosen, Tensor grad_out, Tensor grad_lse) -> Tensor[]",
)
differentiable(
    attend_one_by_one,
    backward=lambda arguments, _, grads: attend_one_by_one_backward(*arguments, *grads),
    forward=_no_forward_mode,
)


def _query(call: Call, query: int, heads: list[int], ranges: Sequence[Range]) -> tuple[Tensor, Tensor]:
    """The output (heads, d_v) and the log-sum-exp (heads,) of one query in `heads`, over the keys in `ranges`."""
    places = torch.meshgrid(*(torch.arange(*visible, device=call.query.device) for visible in ranges), indexing="ij")
    allowed = torch.ones_like(places[0], dtype=torch.bool).expand(len(heads), *places[0].shape)
    for first, second in combinations(places, 2):
        allowed = allowed & (first != second)
    axes = range(1, allowed.dim())
    for axis, mask, visible in zip(axes, call.masks, ranges, strict=False):
        allowed = allowed & _along(axis, mask[heads, slice(*visible)], allowed.dim())
    tensors = []
    for x, axis, visible in zip((*call.keys, *call.values), (*axes, *axes), (*ranges, *ranges), strict=True):
        # Keys and values that are in no allowed tuple may be NaN, so they are replaced by zeros.
        seen = allowed.any(tuple(other for other in axes if other != axis))
        tensors.append(x[heads, slice(*visible)].masked_fill(~seen.unsqueeze(-1), 0.0))
    keys, values = tensors[: len(ranges)], tensors[len(ranges) :]
    empty = ~allowed.flatten(1).any(1, keepdim=True)
    scores = tensor_scores(call.query[heads, query : query + 1], keys, call.scale).squeeze(1)
    scores = scores.masked_fill(~allowed, -torch.inf).flatten(1).masked_fill(empty, 0.0)
    weights = scores.softmax(1).masked_fill(empty, 0.0).reshape(allowed.shape).unsqueeze(-1)
    for axis, value in zip(reversed(axes), reversed(values), strict=True):
        weights = (weights * _along(axis, value, axis + 1)).sum(axis)
    return weights, scores.logsumexp(1).masked_fill(empty.squeeze(1), -torch.inf)


def _along(axis: int, x: Tensor, dims: int) -> Tensor:
    """Reshape (heads, length, ...) to (heads, 1, ..., length, ..., 1, ...) with the length at one of `dims` axes."""
    return x.reshape(x.shape[0], *(1,) * (axis - 1), x.shape[1], *(1,) * (dims - axis - 1), *x.shape[2:])
