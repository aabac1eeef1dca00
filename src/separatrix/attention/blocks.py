r"""Exact order-k attention by blocks of (queries x key tuples) that stay in cache, forward and backward.

With K = K_1 (x) ... (x) K_{k-1} and V = V_1 (x) ... (x) V_{k-1} the column-wise Kronecker products (Alman and Song,
Definition 1.5), order-k attention is ordinary attention over the rows of K and V. They are never held: a chunk of
their rows is built from a few rows of all key sets but one (the *prefixes*) times that one (the *inner* set), used
against all queries, and forgotten.

Where a bound R on all |scores| shows that no sum of exp(scores) can over- or underflow, no maximum is subtracted: the
passes over a block are then the two products, the exponential and a sum. A key that a mask hides is zero in K and V
and weighs nothing in the sum, which costs no pass at all.

The backward pass uses P = exp(S - lse), which needs no maximum whatever the scores (lse is one more column of the
first product), and for a chunk

    G = P^T dO,    dS = P * (dO V^T - delta),    H = dS^T Q,    dQ += dS K

where G and H, the gradients of the rows of V and K, are folded onto the value and key sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from separatrix.attention.kronecker_rows import Chunk, KroneckerRows, by_length, chunks
from separatrix.attention.overflow import needs_no_shift
from separatrix.attention.schedule import Box, Positions, Range, boxes

_BLOCK = {"cpu": 1 << 21}
"""Bytes of a block of scores: half of the second-level caches of two cores; accelerators take the other default."""
_BLOCK_ELSEWHERE = 1 << 26
_ROWS = 1024
"""Queries of a block, at the most: beyond it the products gain nothing."""


@dataclass(frozen=True)
class Problem:
    """Order-k attention over H heads: query (H, L_q, d), keys (H, L_m, d), values (H, L_m, d_v), masks (H, L_m),
    one for each set or none."""

    query: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]
    positions: Positions
    scale: float

    def of_heads(self, heads: slice) -> Problem:
        return Problem(
            self.query[heads],
            tuple(key[heads] for key in self.keys),
            tuple(value[heads] for value in self.values),
            tuple(mask[heads] for mask in self.masks),
            self.positions,
            self.scale,
        )


@dataclass(frozen=True)
class _Tiling:
    """How the volume of some heads is cut: the boxes, the sets by length, and a block's number of scores."""

    found: list[Box]
    sets: list[int]
    rows: int
    block: int
    width: int
    heads: int

    def chunk_size(self, box: Box) -> int:
        """Tuples in a chunk: the scores fill a block, and the rows of K and V no more than two."""
        rows = min(self.rows, box.queries[1] - box.queries[0])
        return max(1, min(self.block // (self.heads * rows), 2 * self.block // (self.heads * self.width)))

    @property
    def capacity(self) -> int:
        return max((self.chunk_size(box) for box in self.found), default=0)

    def row_blocks(self, box: Box) -> list[Range]:
        start, stop = box.queries
        pieces = -(-(stop - start) // self.rows)
        edges = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
        return list(pairwise(edges))


def _split(heads: int, rows: int) -> int:
    """Into how many products of fewer rows a product of one head is split.

    A batch of products, the exponential and the sum over it are shared out among threads in the same way, so that
    each finds in its own cache what it left there; one product is shared out in another way than what follows.
    """
    if heads > 1:
        return heads
    return next((s for s in (4, 2) if rows % s == 0 and rows // s >= (128 if s == 4 else 32)), 1)


def _tiling(problem: Problem) -> _Tiling:
    query_length, lengths = problem.query.shape[1], [key.shape[1] for key in problem.keys]
    found = boxes(query_length, lengths, problem.positions)
    block = _BLOCK.get(problem.query.device.type, _BLOCK_ELSEWHERE) // problem.query.element_size()
    rows = min(_ROWS, max(query_length, 1))
    width = problem.query.shape[2] + problem.values[0].shape[2]
    volume = max((rows * box.tuples for box in found), default=1)
    heads = max(1, min(problem.query.shape[0], block // max(1, volume)))
    return _Tiling(found, by_length(lengths), rows, block, width, heads)


def roundings(problem: Problem) -> int:
    """How many roundings, at the most, a weight goes through on its way into the sums of its query.

    One for each term of its chunk, and three for each chunk after it: the sum, and twice the change of the maximum.
    """
    tiling = _tiling(problem)
    most = sum(1 for box in tiling.found for _ in chunks(box, tiling.sets, tiling.chunk_size(box)))
    return tiling.capacity + 3 * most + 8


def _weights(problem: Problem, sets: Sequence[int], chunk: Chunk) -> Tensor:
    """(H, chunk.size): 1 for a tuple of keys that may be attended, 0 where a mask forbids one of them."""
    total = problem.query.new_ones(problem.query.shape[0], *chunk.shape)
    for m in sets:
        mask = problem.masks[m][:, slice(*chunk.rows[m])]
        total *= mask.unsqueeze(1 if m == sets[-1] else 2)
    return total.flatten(1)


Allowed = tuple[int, list[Tensor]]
"""How many of the first rows do not attend all of a chunk, and for each set what they may, over (second, longest)."""


class _Pairs:
    """Which (query, key) pairs causality and windows allow in a box, 1 or 0, made once for each range of keys."""

    def __init__(self, problem: Problem, box: Box, sets: Sequence[int]) -> None:
        self._problem, self._box, self._sets = problem, box, sets
        self._made: dict[tuple[int, Range, Range], Tensor] = {}

    def allowed(self, chunk: Chunk, rows: Range) -> Allowed | None:
        """None where these rows attend all of the chunk."""
        masked = (rows[0], min(rows[1], self._box.queries[0] + self._box.masked))
        if masked[0] >= masked[1]:
            return None
        found = []
        for m in self._sets:
            key = (m, chunk.rows[m], masked)
            if key not in self._made:
                self._made[key] = self._make(*key)
            found.append(self._made[key])
        return masked[1] - masked[0], found

    def _make(self, m: int, keys: Range, queries: Range) -> Tensor:
        query = self._problem.query
        may = self._problem.positions.allowed(m, queries, torch.arange(*keys, device=query.device))
        return may.unsqueeze(1 if m == self._sets[-1] else 2).to(query.dtype)


def _zero(P: Tensor, chunk: Chunk, allowed: Allowed | None) -> None:
    """Put 0 in the weights (H, rows, chunk) of the pairs that are not allowed."""
    if allowed is not None:
        part = P[:, : allowed[0]].unflatten(2, chunk.shape)
        for may in allowed[1]:
            part.mul_(may)


def _sets(problem: Problem, ones: int) -> list[Tensor]:
    """The sets [K_m, 1, V_m, 1], with a column of ones for each that the left factors have more; 0 or 1 of each."""
    widened = []
    for key, value in zip(problem.keys, problem.values, strict=True):
        one = [torch.ones_like(key[..., :1])] * ones
        widened.append(torch.cat([key, *one, value, *one], -1))
    return widened


def forward(problem: Problem) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) and the log-sum-exp (H, L_q)."""
    tiling = _tiling(problem)
    query = problem.query
    out = query.new_zeros(*query.shape[:2], problem.values[0].shape[2])
    lse = query.new_full(query.shape[:2], -math.inf)
    if tiling.found:
        for first in range(0, query.shape[0], tiling.heads):
            group = slice(first, first + tiling.heads)
            _forward(problem.of_heads(group), tiling, out[group], lse[group])
    return out, lse


def _forward(problem: Problem, tiling: _Tiling, out: Tensor, lse: Tensor) -> None:
    shifted = not needs_no_shift(problem.query, problem.keys, problem.values, problem.scale)
    peak = torch.full_like(lse, -math.inf if shifted else 0.0)
    total = torch.zeros_like(lse)
    left = problem.query * problem.scale
    heads, _, d = left.shape
    rows_of = KroneckerRows(_sets(problem, 0), tiling.sets, tiling.capacity)
    memory = left.new_empty(heads * tiling.block // tiling.heads)
    for box in tiling.found:
        row_blocks, pairs = tiling.row_blocks(box), _Pairs(problem, box, tiling.sets)
        parts = [tuple(x[:, slice(*rows)] for x in (left, out, total, peak)) for rows in row_blocks]
        splits = [_split(heads, rows[1] - rows[0]) for rows in row_blocks]
        for chunk in chunks(box, tiling.sets, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            k, v = built[..., :d].mT, built[..., d:]
            weights = _weights(problem, tiling.sets, chunk).unsqueeze(-1) if problem.masks else None
            for rows, split, (here, out_here, total_here, peak_here) in zip(row_blocks, splits, parts, strict=True):
                block = memory[: heads * (rows[1] - rows[0]) * chunk.size]
                S, batch = block.view(heads, -1, chunk.size), block.view(split, -1, chunk.size)
                torch.bmm(here.view(split, -1, d), k.expand(split, -1, -1), out=batch)
                allowed = pairs.allowed(chunk, rows)
                if shifted:
                    _shift(S, chunk, allowed, weights, out_here, total_here, peak_here)
                batch.exp_()
                _zero(S, chunk, allowed)
                total_here += batch.sum(-1).view(heads, -1) if weights is None else (S @ weights).squeeze(-1)
                out_here.view(split, -1, out.shape[2]).baddbmm_(batch, v.expand(split, -1, -1))
    empty = total == 0
    out /= total.masked_fill(empty, 1.0).unsqueeze(-1)
    lse.copy_(torch.log(total) + peak.masked_fill(empty, 0.0))


def _shift(
    S: Tensor,
    chunk: Chunk,
    allowed: Allowed | None,
    weights: Tensor | None,
    out: Tensor,
    total: Tensor,
    peak: Tensor,
) -> None:
    """Subtract from the scores the largest so far of those that count, and scale down what was summed before.

    Scores far below are raised to where exp is still normal: vanishing in every sum, and exp is slow beyond.
    """
    counted = S
    if allowed is not None:
        counted = S.clone()
        part = counted[:, : allowed[0]].unflatten(2, chunk.shape)
        for may in allowed[1]:
            part.masked_fill_(may == 0, -math.inf)
    if weights is not None:
        counted = counted.masked_fill(weights.mT == 0, -math.inf)
    highest = torch.maximum(peak, counted.amax(-1))
    base = highest.masked_fill(highest == -math.inf, 0.0)
    fade = torch.exp(peak - base)
    out *= fade.unsqueeze(-1)
    total *= fade
    peak.copy_(highest)
    S.sub_(base.unsqueeze(-1)).clamp_(_lowest(S.dtype), 1.0)


def _lowest(dtype: torch.dtype) -> float:
    """An exponent whose exp is normal and below any rounding of a sum with a term 1."""
    return 0.9 * math.log(torch.finfo(dtype).tiny)


Gradients = tuple[Tensor, list[Tensor], list[Tensor]]


def backward(problem: Problem, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, given those of the output and of the log-sum-exp."""
    tiling = _tiling(problem)
    d = problem.query.shape[2]
    empty = lse == -math.inf
    dO = grad_out.masked_fill(empty.unsqueeze(-1), 0.0)
    delta = ((dO * out).sum(-1) - grad_lse).masked_fill(empty, 0.0)
    grad_query = torch.zeros_like(problem.query)
    grad_sets = [torch.zeros(*x.shape[:2], x.shape[2] + out.shape[2]).to(x) for x in problem.keys]
    for first in range(0, problem.query.shape[0] if tiling.found else 0, tiling.heads):
        group = slice(first, first + tiling.heads)
        into = (grad_query[group], [x[group] for x in grad_sets])
        _backward(
            problem.of_heads(group),
            tiling,
            lse[group].masked_fill(empty[group], 0.0),
            dO[group],
            delta[group],
            *into,
        )
    return grad_query, [x[..., :d] for x in grad_sets], [x[..., d:] for x in grad_sets]


def _backward(
    problem: Problem,
    tiling: _Tiling,
    shift: Tensor,
    dO: Tensor,
    delta: Tensor,
    grad_query: Tensor,
    grad_sets: list[Tensor],
) -> None:
    """A tuple with a hidden key has rows of zeros in K and V: what it does ends in the gradient of the hidden key."""
    near = needs_no_shift(problem.query, problem.keys, problem.values, problem.scale)
    d, d_v = problem.query.shape[2], dO.shape[2]
    left = torch.cat([problem.query * problem.scale, -shift.unsqueeze(-1)], -1)
    dO_delta = torch.cat([dO, -delta.unsqueeze(-1)], -1)
    heads = left.shape[0]
    rows_of = KroneckerRows(_sets(problem, 1), tiling.sets, tiling.capacity)
    sets = KroneckerRows(_sets(problem, 0), tiling.sets, tiling.capacity)
    memory = left.new_empty(2, heads * tiling.block // tiling.heads)
    grad_rows = left.new_empty(heads, tiling.capacity, d + d_v)
    for box in tiling.found:
        row_blocks, pairs = tiling.row_blocks(box), _Pairs(problem, box, tiling.sets)
        parts = [tuple(x[:, slice(*rows)] for x in (left, dO, dO_delta, grad_query)) for rows in row_blocks]
        splits = [_split(heads, rows[1] - rows[0]) for rows in row_blocks]
        for chunk in chunks(box, tiling.sets, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            k, v = built[..., : d + 1], built[..., d + 1 :].mT
            grad_chunk = grad_rows[:, : chunk.size].zero_()
            H, G = grad_chunk[..., :d], grad_chunk[..., d:]
            for rows, split, (here, dO_here, dO_delta_here, grad_here) in zip(row_blocks, splits, parts, strict=True):
                P, dP = (x[: heads * (rows[1] - rows[0]) * chunk.size].view(heads, -1, chunk.size) for x in memory)
                batch, d_batch = P.view(split, -1, chunk.size), dP.view(split, -1, chunk.size)
                torch.bmm(here.view(split, -1, d + 1), k.mT.expand(split, -1, -1), out=batch)
                if not near:
                    batch.clamp_(_lowest(P.dtype), 1.0)
                batch.exp_()
                _zero(P, chunk, pairs.allowed(chunk, rows))
                G.baddbmm_(P.mT, dO_here)
                torch.bmm(dO_delta_here.view(split, -1, d_v + 1), v.expand(split, -1, -1), out=d_batch)
                batch.mul_(d_batch)
                H.baddbmm_(P.mT, here[..., :d])
                grad_here.view(split, -1, d).baddbmm_(batch, k[..., :d].expand(split, -1, -1))
            sets.fold(chunk, grad_chunk, grad_sets)
    grad_query *= problem.scale
