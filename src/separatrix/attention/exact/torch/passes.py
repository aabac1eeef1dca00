r"""Exact order-k attention by blocks of (queries x key tuples) that stay in cache, forward and backward.

With K = K_1 (x) ... (x) K_{k-1} and V = V_1 (x) ... (x) V_{k-1} the column-wise Kronecker products (Alman and Song,
Definition 1.5), order-k attention is ordinary attention over the rows of K and V. They are never stored as a whole: a
chunk of their rows is the product of a few rows of all key sets but one (the *prefixes*) and of that one (the *inner*
set); it is used for all queries and then discarded.

Where a bound R on all |scores| shows that no sum of exp(scores) can over- or underflow, no maximum is subtracted: the
passes over a block are then the two products, the exponential and a sum. A key that a mask hides is zero in K and V
and has weight 0 in the sum, so that masks need no extra pass.

The backward pass uses P = exp(S - lse), which needs no maximum whatever the scores (lse is one more column of the
first product), and for a chunk

    G = P^T dO,    dS = P * (dO V^T - delta),    H = dS^T Q,    dQ += dS K

where G and H, the gradients of the rows of V and K, are folded onto the value and key sets.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.call import Call, Gradients, Range
from separatrix.attention.exact.incoming_rows import IncomingRows
from separatrix.attention.exact.torch.contested import Contested
from separatrix.attention.exact.torch.kronecker_rows import Chunk, KroneckerRows, chunks
from separatrix.attention.exact.torch.overflow import needs_no_shift
from separatrix.attention.exact.torch.tiling import PARTS, Tiling, split_of, tiling_of


def _weights(call: Call, chunk: Chunk) -> Tensor:
    """(H, chunk.size): 1 for a tuple of keys that may be attended, 0 where a mask forbids one of them."""
    total = call.query.new_ones(call.query.shape[0], *chunk.shape)
    for m in chunk.order:
        mask = call.masks[m][:, slice(*chunk.rows[m])]
        total *= mask.unsqueeze(1 if m == chunk.order[-1] else 2)
    return total.flatten(1)


def _sets(call: Call, ones: int) -> list[Tensor]:
    """The sets [K_m, 1, V_m, 1], with a column of ones for each that the left factors have more; 0 or 1 of each."""
    widened = []
    for key, value in zip(call.keys, call.values, strict=True):
        ones_column = [torch.ones_like(key[..., :1])] * ones
        widened.append(torch.cat([key, *ones_column, value, *ones_column], -1))
    return widened


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) and the log-sum-exp (H, L_q)."""
    tiling = tiling_of(call)
    query = call.query
    out = query.new_zeros(*query.shape[:2], call.values[0].shape[2])
    lse = query.new_full(query.shape[:2], -math.inf)
    if tiling.boxes:
        for first in range(0, query.shape[0], tiling.heads):
            group = slice(first, first + tiling.heads)
            _forward(call.of_heads(group), tiling, out[group], lse[group])
    return out, lse


class _Views(NamedTuple):
    """A block of rows against the rows of a chunk: the four operands of a step, with `into` and `total` its results.

    All of them have a batch dimension: the number of parts into which the rows are split.
    """

    rows: Range
    left: Tensor
    keys: Tensor
    scores: Tensor
    values: Tensor
    into: Tensor
    total: Tensor


def _forward(call: Call, tiling: Tiling, out: Tensor, lse: Tensor) -> None:
    shifted = not needs_no_shift(call.query, call.keys, call.values, call.scale)
    peak = torch.full_like(lse, -math.inf if shifted else 0.0)
    total = torch.zeros_like(lse)
    left = call.query * call.scale
    heads, _, d = left.shape
    copies = max(PARTS, heads)
    rows_of = KroneckerRows([x.expand(copies, -1, -1) for x in _sets(call, 0)], tiling.capacity)
    memory = left.new_empty(heads * tiling.block // tiling.heads)
    contested = Contested(call.positions, left)

    def view(rows: Range, built: Tensor) -> _Views:
        start, stop = rows
        size, split = built.shape[1], split_of(heads, stop - start)
        built = built if split == copies else built[:split]
        return _Views(
            rows,
            left[:, start:stop].view(split, -1, d),
            built[..., :d].mT,
            memory[: heads * (stop - start) * size].view(split, -1, size),
            built[..., d:],
            out[:, start:stop].view(split, -1, out.shape[2]),
            total[:, start:stop].view(split, -1),
        )

    for box in tiling.boxes:
        row_blocks = tiling.row_blocks(box)
        plain = not (shifted or call.masks or box.masked)
        views: dict[tuple[int, int], tuple[Tensor, list[_Views]]] = {}
        for chunk in chunks(box, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            if chunk.shape not in views or views[chunk.shape][0] is not built:
                views[chunk.shape] = built, [view(rows, built) for rows in row_blocks]
            weights = _weights(call, chunk).unsqueeze(-1) if call.masks else None
            for at in views[chunk.shape][1]:
                torch.bmm(at.left, at.keys, out=at.scores)
                if not plain:
                    S = at.scores.view(heads, -1, chunk.size)
                if shifted:
                    counted = S.clone() if box.masked else S
                    for part, may in contested.parts(counted, box, chunk, at.rows):
                        part.masked_fill_(may == 0, -math.inf)
                    _shift(S, counted, weights, *(x[:, slice(*at.rows)] for x in (out, total, peak)))
                at.scores.exp_()
                if box.masked:
                    for part, may in contested.parts(S, box, chunk, at.rows):
                        part.mul_(may)
                if weights is None:
                    at.total.add_(at.scores.sum(-1))
                else:
                    at.total.add_((S @ weights).view_as(at.total))
                at.into.baddbmm_(at.scores, at.values)
    empty = total == 0
    out /= total.masked_fill(empty, 1.0).unsqueeze(-1)
    lse.copy_(torch.log(total) + peak.masked_fill(empty, 0.0))


def _shift(S: Tensor, counted: Tensor, weights: Tensor | None, out: Tensor, total: Tensor, peak: Tensor) -> None:
    """Subtract the largest score so far from the scores, and rescale the earlier sums.

    Scores far below it are raised to `lowest`: they vanish in every sum all the same, and exp is slow below.
    """
    if weights is not None:
        counted = counted.masked_fill(weights.mT == 0, -math.inf)
    highest = torch.maximum(peak, counted.amax(-1))
    base = highest.masked_fill(highest == -math.inf, 0.0)
    fade = torch.exp(peak - base)
    out *= fade.unsqueeze(-1)
    total *= fade
    peak.copy_(highest)
    S.sub_(base.unsqueeze(-1)).clamp_(lowest(S.dtype), 1.0)


def lowest(dtype: torch.dtype) -> float:
    """An exponent whose exp is normal and below any rounding of a sum with a term 1."""
    return 0.9 * math.log(torch.finfo(dtype).tiny)


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, given those of the output and of the log-sum-exp."""
    tiling = tiling_of(call)
    d = call.query.shape[2]
    rows = IncomingRows.of(call, lse, grad_out, grad_lse)
    delta = (rows.near * out).sum(-1, keepdim=True) - rows.near_lse
    dO_delta = torch.cat([rows.near, -delta], -1)
    grad_query = torch.zeros_like(call.query)
    grad_sets = [torch.zeros(*x.shape[:2], x.shape[2] + out.shape[2]).to(x) for x in call.keys]
    for first in range(0, call.query.shape[0] if tiling.boxes else 0, tiling.heads):
        group = slice(first, first + tiling.heads)
        _backward(
            call.of_heads(group),
            tiling,
            rows.lse[group],
            rows.incoming[group],
            dO_delta[group],
            rows.weighted[group],
            grad_query[group],
            [x[group] for x in grad_sets],
        )
    return rows.gradients(grad_query, [x[..., :d] for x in grad_sets], [x[..., d:] for x in grad_sets])


def _backward(
    call: Call,
    tiling: Tiling,
    shift: Tensor,
    dO: Tensor,
    dO_delta: Tensor,
    weighted: Tensor,
    grad_query: Tensor,
    grad_sets: list[Tensor],
) -> None:
    """Add the gradients of some heads to the last two arguments.

    A tuple with a hidden key has rows of zeros in K and V: it contributes only to the gradient of the hidden key.

    Args:
        call: The call of these heads.
        tiling: How the volume is cut.
        shift: The log-sum-exps of the queries.
        dO: The incoming gradients.
        dO_delta: The incoming gradients and -delta, divided by a power of two for each query.
        weighted: The queries times the scale and that power.
        grad_query: The gradients of the queries, divided by that power.
        grad_sets: The gradients of keys and values.
    """
    near = needs_no_shift(call.query, call.keys, call.values, call.scale)
    d, d_v = call.query.shape[2], dO.shape[2]
    left = torch.cat([call.query * call.scale, -shift.unsqueeze(-1)], -1)
    heads = left.shape[0]
    rows_of = KroneckerRows(_sets(call, 1), tiling.capacity)
    sets = KroneckerRows(_sets(call, 0), tiling.capacity)
    memory = left.new_empty(2, heads * tiling.block // tiling.heads)
    contested = Contested(call.positions, left)
    grad_rows = left.new_empty(heads, tiling.capacity, d + d_v)
    for box in tiling.boxes:
        row_blocks = tiling.row_blocks(box)
        parts = [tuple(x[:, slice(*rows)] for x in (left, dO, dO_delta, weighted, grad_query)) for rows in row_blocks]
        splits = [split_of(heads, rows[1] - rows[0]) for rows in row_blocks]
        for chunk in chunks(box, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            k, v = built[..., : d + 1], built[..., d + 1 :].mT
            grad_chunk = grad_rows[:, : chunk.size].zero_()
            H, G = grad_chunk[..., :d], grad_chunk[..., d:]
            for rows, split, part in zip(row_blocks, splits, parts, strict=True):
                here, dO_here, dO_delta_here, weighted_here, grad_here = part
                P, dP = (x[: heads * (rows[1] - rows[0]) * chunk.size].view(heads, -1, chunk.size) for x in memory)
                batch, d_batch = P.view(split, -1, chunk.size), dP.view(split, -1, chunk.size)
                torch.bmm(here.view(split, -1, d + 1), k.mT.expand(split, -1, -1), out=batch)
                if not near:
                    batch.clamp_(lowest(P.dtype), 1.0)
                batch.exp_()
                for hidden, may in contested.parts(P, box, chunk, rows):
                    hidden.mul_(may)
                G.baddbmm_(P.mT, dO_here)
                torch.bmm(dO_delta_here.view(split, -1, d_v + 1), v.expand(split, -1, -1), out=d_batch)
                batch.mul_(d_batch)
                H.baddbmm_(P.mT, weighted_here)
                grad_here.view(split, -1, d).baddbmm_(batch, k[..., :d].expand(split, -1, -1))
            sets.fold(chunk, grad_chunk, grad_sets)
    grad_query *= call.scale
