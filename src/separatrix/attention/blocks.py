r"""Exact order-k attention by blocks of (queries x key tuples) that stay in cache, forward and backward.

With K = K_1 (x) ... (x) K_{k-1} and V = V_1 (x) ... (x) V_{k-1} the column-wise Kronecker products (Alman and Song,
Definition 1.5), order-k attention is ordinary attention over the rows of K and V. They are never held: a chunk of
their rows is built from a few rows of all key sets but one (the *prefixes*) times that one (the *inner* set), used
against all queries, and forgotten.

Two facts keep the passes over a block to the two products and the exponential:
- where a bound R on all |scores| shows that no sum of exp(scores) can over- or underflow, no maximum is subtracted;
- a masked tuple and a per-query shift are extra columns of the first product, [scale Q, -shift, 1][K, 1, log w]^T,
  with log w = -inf for a masked tuple.

The backward pass uses P = exp(S - lse), which needs no maximum whatever the scores, and for a chunk

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

    @property
    def is_masked(self) -> bool:
        return bool(self.masks)

    def of_heads(self, heads: slice) -> Problem:
        return Problem(
            self.query[heads],
            tuple(key[heads] for key in self.keys),
            tuple(value[heads] for value in self.values),
            tuple(mask[heads] for mask in self.masks),
            self.positions,
            self.scale,
        )


def score_bound(problem: Problem) -> float:
    """A bound R on every |score|, the smaller of the amplitudes' and Hoelder's; NaN or inf if the input has any.

    scale * sum_l |q_l| prod_m max_j |k_m,jl|, and scale * ||q||_k prod_m max_j ||k_m,j||_k.
    """
    order = len(problem.keys) + 1
    amplitudes = problem.query.abs()
    hoelder = torch.linalg.vector_norm(problem.query, order, dim=-1).amax(-1)
    for key in problem.keys:
        amplitudes = amplitudes * key.abs().amax(-2, keepdim=True)
        hoelder = hoelder * torch.linalg.vector_norm(key, order, dim=-1).amax(-1)
    return abs(problem.scale) * float(torch.minimum(amplitudes.sum(-1).amax(-1), hoelder).max())


def _needs_no_shift(problem: Problem) -> bool:
    """Whether exp(scores), its sums and its sums against the values stay well inside the dtype's range."""
    reach = score_bound(problem)
    for value in problem.values:
        largest = float(value.abs().max())
        reach += math.log(value.shape[-2]) + (abs(math.log(largest)) if 0 < largest < math.inf else 0.0)
        if math.isnan(largest) or math.isinf(largest):
            return False
    return reach < 0.9 * math.log(torch.finfo(problem.query.dtype).max)


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


def _log_weight(problem: Problem, sets: Sequence[int], chunk: Chunk) -> Tensor:
    """(H, chunk.size): 0 for a tuple of keys that may be attended, -inf where a mask forbids one of them."""
    total = problem.query.new_zeros(problem.query.shape[0], *chunk.shape)
    for m in sets:
        forbidden = ~problem.masks[m][:, slice(*chunk.rows[m])]
        total.masked_fill_(forbidden.unsqueeze(1 if m == sets[-1] else 2), -math.inf)
    return total.flatten(1)


def _forbid(S: Tensor, problem: Problem, box: Box, chunk: Chunk, sets: Sequence[int], rows: Range) -> None:
    """Put -inf in the scores (H, rows, chunk) of the pairs that causality or a window forbids."""
    masked = (rows[0], min(rows[1], box.queries[0] + box.masked))
    if masked[0] >= masked[1]:
        return
    S = S[:, : masked[1] - masked[0]].unflatten(2, chunk.shape)
    for m in sets:
        allowed = problem.positions.allowed(m, masked, torch.arange(*chunk.rows[m], device=S.device))
        S.masked_fill_(~allowed.unsqueeze(1 if m == sets[-1] else 2), -math.inf)


def _columns(problem: Problem, *more: Tensor) -> Tensor:
    """[scale Q, more..., 1]: the left factor of the scores, the last column only where there are masks."""
    found = [problem.query * problem.scale, *(x.unsqueeze(-1) for x in more)]
    if problem.is_masked:
        found.append(torch.ones_like(problem.query[..., :1]))
    return torch.cat(found, -1)


def _sets(problem: Problem, ones: int) -> list[Tensor]:
    """The sets [K_m, 1, 1, V_m, 1], a column of ones for each one that the columns of Q and of dO have more."""
    widened = []
    for key, value in zip(problem.keys, problem.values, strict=True):
        one = torch.ones_like(key[..., :1])
        widened.append(torch.cat([key, *[one] * (ones + problem.is_masked), value, *[one] * ones], -1))
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
    shifted = not _needs_no_shift(problem)
    peak = torch.full_like(lse, -math.inf if shifted else 0.0)
    total = torch.zeros_like(lse)
    left = _columns(problem)
    heads, width = left.shape[0], left.shape[2]
    rows_of = KroneckerRows(_sets(problem, 0), tiling.sets, tiling.capacity)
    memory = left.new_empty(heads * tiling.block // tiling.heads)
    for box in tiling.found:
        row_blocks = tiling.row_blocks(box)
        for chunk in chunks(box, tiling.sets, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            k, v = built[..., :width].mT, built[..., width:]
            if problem.is_masked:
                k[:, -1] = _log_weight(problem, tiling.sets, chunk)
            for rows in row_blocks:
                here = slice(*rows)
                S = memory[: heads * (rows[1] - rows[0]) * chunk.size].view(heads, -1, chunk.size)
                torch.bmm(left[:, here], k, out=S)
                if box.masked:
                    _forbid(S, problem, box, chunk, tiling.sets, rows)
                if shifted:
                    highest = torch.maximum(peak[:, here], S.amax(-1))
                    base = highest.masked_fill(highest == -math.inf, 0.0)
                    fade = torch.exp(peak[:, here] - base)
                    out[:, here] *= fade.unsqueeze(-1)
                    total[:, here] *= fade
                    peak[:, here] = highest
                    S.sub_(base.unsqueeze(-1))
                S.exp_()
                total[:, here] += S.sum(-1)
                out[:, here].baddbmm_(S, v)
    empty = total == 0
    out /= total.masked_fill(empty, 1.0).unsqueeze(-1)
    lse.copy_(torch.log(total) + peak.masked_fill(empty, 0.0))


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
    for first in range(0, problem.query.shape[0], tiling.heads):
        group = slice(first, first + tiling.heads)
        into = (grad_query[group], [x[group] for x in grad_sets])
        _backward(
            problem.of_heads(group),
            tiling,
            lse[group].masked_fill(empty[group], math.inf),
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
    left = _columns(problem, -shift)
    scaled = left[..., : problem.query.shape[2]]
    dO_delta = torch.cat([dO, -delta.unsqueeze(-1)], -1)
    heads, d, width = left.shape[0], scaled.shape[2], left.shape[2]
    rows_of = KroneckerRows(_sets(problem, 1), tiling.sets, tiling.capacity)
    sets = KroneckerRows(
        [torch.cat([key, value], -1) for key, value in zip(problem.keys, problem.values, strict=True)],
        tiling.sets,
        tiling.capacity,
    )
    memory = left.new_empty(2, heads * tiling.block // tiling.heads)
    grad_rows = left.new_empty(heads, tiling.capacity, d + dO.shape[2])
    for box in tiling.found:
        row_blocks = tiling.row_blocks(box)
        for chunk in chunks(box, tiling.sets, tiling.chunk_size(box)):
            built = rows_of.build(chunk)
            k, v = built[..., :width].mT, built[..., width:].mT
            if problem.is_masked:
                k[:, -1] = _log_weight(problem, tiling.sets, chunk)
            grad_chunk = grad_rows[:, : chunk.size].zero_()
            H, G = grad_chunk[..., :d], grad_chunk[..., d:]
            for rows in row_blocks:
                here = slice(*rows)
                P, dP = (x[: heads * (rows[1] - rows[0]) * chunk.size].view(heads, -1, chunk.size) for x in memory)
                torch.bmm(left[:, here], k, out=P)
                if box.masked:
                    _forbid(P, problem, box, chunk, tiling.sets, rows)
                P.exp_()
                G.baddbmm_(P.mT, dO[:, here])
                torch.bmm(dO_delta[:, here], v, out=dP)
                dS = P.mul_(dP)
                H.baddbmm_(dS.mT, scaled[:, here])
                grad_query[:, here].baddbmm_(dS, k[:, :d].mT)
            sets.fold(chunk, grad_chunk, grad_sets)
    grad_query *= problem.scale
