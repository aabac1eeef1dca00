r"""Exact attention in plain PyTorch: the backend for devices without kernels and installations without a compiler.

A block of queries attends its visible keys one chunk of tuples at a time, so that memory is linear in all lengths. With
scores S and P = exp(S - lse) over the tuples of a chunk (Alman and Song, Definition 1.5),

    forward:   out = sum_t P_t V_t, rescaled whenever a chunk has a larger score than those before
    backward:  dS = P * (dO . V_1 . ... . V_{k-1} - delta),    delta = dO . out - dlse,
               dQ = scale dS . K_1 . ... . K_{k-1},    dK_m = scale dS . Q . (all K but K_m),
               dV_m = P . dO . (all V but V_m)
    tangents:  S' = scale (Q' . K_1 . ... + Q . K_1' . ... + ...),    lse' = sum_t P_t S'_t,
               out' = (P * (S' - lse')) . V_1 . ... + P . V_1' . ... + ...

where * is entrywise, a dot sums over all indices that the result does not have, and a prime is a tangent. For second
derivatives `operators` applies the same formulas to all tuples at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import truth
from separatrix.attention.arithmetic.incoming import Power
from separatrix.attention.arithmetic.rounding import Summation, block_gradient_sum, block_sum
from separatrix.attention.bounds import pieces
from separatrix.attention.call import Call, Changes, Gradients, Range
from separatrix.attention.exact.balance import size_of
from separatrix.attention.reference import column_kronecker

NAME = "torch"
TAKES_AS_GIVEN = False
SCORES = {"cpu": 1 << 18}
"""The number of scores of a chunk by device type: on the CPU they fit into a core's cache."""
_SCORES_ELSEWHERE = 1 << 24
ROWS = 64
"""The largest number of queries in a block: with more, a causal mask would hide a larger part of the scores."""
_LAUNCH = 1 << 16
"""The number of scores that are computed in the time in which PyTorch launches the operations of a block."""

__all__ = [
    "NAME",
    "TAKES_AS_GIVEN",
    "backward",
    "forward",
    "gradient_summation",
    "size_of",
    "summation",
    "takes",
    "tangents",
    "unproved",
]


@dataclass(frozen=True)
class QueryBlock:
    """Some queries of some heads, the range of keys of each set that they may attend, and the lengths of a chunk."""

    heads: slice
    queries: Range
    keys: tuple[Range, ...]
    sizes: tuple[int, ...]

    @property
    def rows(self) -> tuple[slice, slice]:
        """The index of the block's queries in a tensor (H, L_q, ...)."""
        return self.heads, slice(*self.queries)

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return math.prod(-(-(stop - start) // size) for (start, stop), size in zip(self.keys, self.sizes, strict=True))

    def chunk_ranges(self) -> Iterator[tuple[Range, ...]]:
        """For each chunk of tuples a range of each key set."""
        split = [
            [(start + low, start + high) for low, high in pieces(stop - start, size)]
            for (start, stop), size in zip(self.keys, self.sizes, strict=True)
        ]
        return product(*split)

    def of_sets(self, sets: Sequence[Tensor], chunk: Sequence[Range]) -> tuple[Tensor, ...]:
        """The rows of a chunk of key or value sets (H, L_m, x)."""
        return tuple(x[self.heads, slice(*keys)] for x, keys in zip(sets, chunk, strict=True))

    def scores(self, call: Call, chunk: Sequence[Range]) -> Tensor:
        """The scores (heads, queries, *chunk), -inf where a query may not attend a tuple."""
        scores = _products(call.query[self.rows] * call.scale, self.of_sets(call.keys, chunk))
        for m, keys in enumerate(chunk):
            shape = (1, -1, *(1,) * m, keys[1] - keys[0], *(1,) * (len(chunk) - 1 - m))
            if call.positions.contested(m, self.queries, keys)[0] < keys[1]:
                index = torch.arange(*keys, device=scores.device)
                allowed = call.positions.allowed(m, self.queries, index).reshape(shape)
                scores = scores.masked_fill(~allowed, -math.inf)
            if call.masks:
                seen = call.masks[m][self.heads, slice(*keys)].reshape(scores.shape[0], 1, *shape[2:])
                scores = scores.masked_fill(~seen, -math.inf)
        return scores


def blocks(call: Call, most_rows: int = ROWS) -> Iterator[QueryBlock]:
    """The blocks of a call, of at most this many queries: a pure function of its shapes, positions and device."""
    (heads, length, d), positions = call.query.shape, call.positions
    room = SCORES.get(call.query.device.type, _SCORES_ELSEWHERE)
    reaches = positions.reaches(call.key_lengths)

    def cost(rows: int) -> int:
        """The cost of blocks of `rows` queries, each of which visits all keys that one of its queries may attend."""
        tuples = math.prod(min(reach + rows - 1, n) for reach, n in zip(reaches, call.key_lengths, strict=True))
        return -(-length // rows) * (_LAUNCH + rows * tuples)

    rows = min((1 << power for power in range(most_rows.bit_length())), key=cost)
    for first, stop in pieces(length, rows):
        keys = tuple(
            (positions.visible(m, first, n)[0], positions.visible(m, stop - 1, n)[1])
            for m, n in enumerate(call.key_lengths)
        )
        tuples = math.prod(max(end - start, 0) for start, end in keys)
        if not tuples:
            continue
        together = max(1, min(heads, room // ((stop - first) * tuples)))
        sizes: list[int] = []
        left = room // (together * max(stop - first, d))
        for start, end in reversed(keys):
            sizes.insert(0, max(1, min(end - start, left)))
            left //= max(sizes[0], d)
        for head, last in pieces(heads, together):
            yield QueryBlock(slice(head, last), (first, stop), keys, tuple(sizes))


def _rows(call: Call) -> int:
    """The largest number of queries in a block.

    A block of several queries multiplies values and keys that some of them may not attend by a weight of zero, and zero
    times NaN is NaN.
    """
    hides = call.positions.is_causal or call.positions.has_window
    return ROWS if not hides or truth(torch.stack([x.isfinite().all() for x in call.tensors]).all()) else 1


@dataclass(frozen=True)
class IncomingRows:
    """The rows of a backward pass, with incoming gradients scaled to about 1, as the kernels in C++ scale them.

    The error of a query's gradient is relative to the incoming gradient of that query, even if other queries have far
    larger ones; the errors of the gradients of keys and values are relative to the largest incoming gradient of their
    head. So there are two copies of the incoming gradient: one divided by a power of two for each query, one by the
    power of two of the head. With P = exp(S - lse) the weights of a query, the gradients are sums of products of

        dS = P * (near (V - out)^T + near_lse),    dQ = scale dS K,    dV = P^T incoming,    dK = dS^T weighted.

    Attributes:
        lse: The log-sum-exps, (H, L_q), 0 for a query without keys to attend.
        near: The incoming gradients divided by each query's power of two, (H, L_q, d_v).
        near_lse: The gradients of the log-sum-exps divided by the same powers, (H, L_q, 1).
        incoming: The incoming gradients divided by the power of two of their head.
        weighted: The queries times the scale and `share`.
        share: Each query's power of two divided by that of its head, (H, L_q); at most 1.

    Heads of queries that share keys have the same power of two, because the gradients of the keys are sums over these
    heads.
    """

    lse: Tensor
    near: Tensor
    near_lse: Tensor
    incoming: Tensor
    weighted: Tensor
    share: Tensor
    _own: Power
    _head: Power

    @classmethod
    def of(cls, call: Call, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> IncomingRows:
        """The rows for the gradients of output and log-sum-exp; a query without keys to attend has no row."""
        empty = lse == -math.inf
        dO, dL = grad_out.masked_fill(empty.unsqueeze(-1), 0.0), grad_lse.masked_fill(empty, 0.0)
        both = torch.cat([dO, dL.unsqueeze(-1)], -1)
        own = Power.next_to(both.flatten(0, 1))
        near = own.divide(both.flatten(0, 1)).unflatten(0, lse.shape)
        head, share = own.of_heads(
            both.reshape(both.shape[0] // call.shared, call.shared * both.shape[1], both.shape[2])
        )
        shares = share.multiply(torch.ones_like(lse).flatten()).unflatten(0, lse.shape)
        incoming = share.multiply(near[..., :-1].flatten(0, 1)).unflatten(0, lse.shape)
        weighted = share.multiply(call.query.flatten(0, 1) * call.scale).unflatten(0, lse.shape)
        return cls(lse.masked_fill(empty, 0.0), near[..., :-1], near[..., -1:], incoming, weighted, shares, own, head)

    def gradients(self, query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Gradients:
        """The gradients of the call's tensors from the sums over these rows."""
        query = self._own.multiply(query.flatten(0, 1)).unflatten(0, self.lse.shape)
        return query, [self._head.multiply(x) for x in keys], [self._head.multiply(x) for x in values]


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) and the log-sum-exp (H, L_q)."""
    out = call.query.new_zeros(*call.query.shape[:2], call.values[0].shape[2])
    lse = call.query.new_full(call.query.shape[:2], -math.inf)
    for block in blocks(call, _rows(call)):
        sums, total, highest = out[block.rows], torch.zeros_like(lse[block.rows]), lse[block.rows]
        for chunk in block.chunk_ranges():
            scores, before = block.scores(call, chunk), highest
            highest = torch.maximum(before, scores.flatten(2).amax(-1))
            base = highest.masked_fill(highest == -math.inf, 0.0)
            fade = torch.exp(before - base)
            weights = torch.exp(scores - _as_rows(base, scores))
            total = total * fade + _summed(weights)
            values = block.of_sets(call.values, chunk)
            sums = sums * fade.unsqueeze(-1) + contracted(0, weights, (sums, *values))
        empty = total == 0
        out[block.rows] = sums / total.masked_fill(empty, 1.0).unsqueeze(-1)
        lse[block.rows] = torch.log(total) + highest.masked_fill(empty, 0.0)
    return out, lse


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, given the gradients of the output and of the log-sum-exp."""
    rows = IncomingRows.of(call, lse, grad_out, grad_lse)
    delta = (rows.near * out).sum(-1) - rows.near_lse.squeeze(-1)
    grads, sets = [torch.zeros_like(x) for x in call.tensors], len(call.keys)
    for block in blocks(call, _rows(call)):
        here = block.rows
        own = [
            torch.zeros_like(x[block.heads, slice(*keys)]) for x, keys in zip(grads[1:], block.keys * 2, strict=True)
        ]
        for chunk in block.chunk_ranges():
            scores = block.scores(call, chunk)
            grad_query, *parts = gradients_of_tuples(
                torch.exp(scores - _as_rows(rows.lse[here], scores)),
                block.of_sets(call.keys, chunk),
                block.of_sets(call.values, chunk),
                (rows.near[here], delta[here], rows.incoming[here], rows.weighted[here]),
            )
            grads[0][here] += grad_query
            for x, part, (start, stop), (first, _) in zip(own, parts, chunk * 2, block.keys * 2, strict=True):
                x[:, start - first : stop - first] += part
        for grad, x, keys in zip(grads[1:], own, block.keys * 2, strict=True):
            grad[block.heads, slice(*keys)] += x
    return rows.gradients(grads[0] * call.scale, grads[1 : 1 + sets], grads[1 + sets :])


def tangents(call: Call, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
    """The tangents of output (H, L_q, d_v) and log-sum-exp (H, L_q); 0 for a query without keys to attend.

    Keys and values that a mask hides are zero in the call, and so are their tangents.
    """
    out_dot, lse_dot = torch.zeros_like(out), torch.zeros_like(lse)
    shift = lse.masked_fill(lse == -math.inf, 0.0)
    for block in blocks(call, _rows(call)):
        for chunk in block.chunk_ranges():
            scores = block.scores(call, chunk)
            out_part, lse_part = tangents_of_tuples(
                torch.exp(scores - _as_rows(shift[block.rows], scores)),
                (call.query[block.rows], block.of_sets(call.keys, chunk), block.of_sets(call.values, chunk)),
                (changes[0][block.rows], block.of_sets(changes[1], chunk), block.of_sets(changes[2], chunk)),
                call.scale,
            )
            out_dot[block.rows] += out_part
            lse_dot[block.rows] += lse_part
    return out_dot - lse_dot.unsqueeze(-1) * out, lse_dot


def gradients_of_tuples(
    P: Tensor, K: Sequence[Tensor], V: Sequence[Tensor], rows: tuple[Tensor, Tensor, Tensor, Tensor]
) -> list[Tensor]:
    """The contributions of tuples with the weights P to dQ / scale, to the dK_m and to the dV_m.

    P is (H, L_q, L_1, ..., L_{k-1}). `rows` are dO and delta for dS, dO for the gradients of the values, and scale Q
    for the gradients of the keys: see `IncomingRows`.
    """
    near, delta, incoming, weighted = rows
    dS = P * (_products(near, V) - _as_rows(delta, P))
    sets = range(1, len(K) + 1)
    of_keys = [contracted(m, dS, (weighted, *K)) for m in (0, *sets)]
    return of_keys + [contracted(m, P, (incoming, *V)) for m in sets]


def tangents_of_tuples(P: Tensor, tensors: Changes, changes: Changes, scale: float) -> tuple[Tensor, Tensor]:
    """The contributions of tuples with weights P to out' + lse' out and to lse', from tensors and their tangents."""
    (Q, K, V), (Q_dot, K_dot, V_dot) = tensors, changes
    S_dot = _products(Q_dot * scale, K)
    for m, x in enumerate(K_dot):
        S_dot = S_dot + _products(Q * scale, [*K[:m], x, *K[m + 1 :]])
    moved = P * S_dot
    out_dot = contracted(0, moved, (Q, *V))
    for m, x in enumerate(V_dot):
        out_dot = out_dot + contracted(0, P, (Q, *V[:m], x, *V[m + 1 :]))
    return out_dot, _summed(moved)


def _products(left: Tensor, sets: Sequence[Tensor]) -> Tensor:
    """left . X_1 . ... . X_{k-1}, (H, L_q, L_1, ..., L_{k-1}): the sums of products of coordinates."""
    rows = column_kronecker(*reversed(sets))
    return torch.unflatten(left @ rows.mT, -1, [x.shape[1] for x in sets])


def _as_rows(x: Tensor, T: Tensor) -> Tensor:
    """x (H, L_q) with a dimension of size 1 for each key set of T, so that it broadcasts with T."""
    return x.reshape(*x.shape, *[1] * (T.dim() - 2))


def _summed(T: Tensor) -> Tensor:
    """The sum of T (H, L_q, L_1, ...) over all tuples, one set after the other, which takes the fewest roundings."""
    while T.dim() > 2:
        T = T.sum(-1)
    return T


def contracted(m: int, T: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """The contraction (H, L_m, x) of T (H, L_q, L_1, ...) with all `rows` but those at m; the first are those of the
    query.

    The longest rows are contracted first, which leaves the smallest tensors; of equally long rows the last, in the
    order of `_products`, so that a query with one weight of 1 has the gradient 0.
    """
    axes = "abcdefghijklmnopqrstuvw"[: len(rows)]
    longest_first = sorted(reversed([*zip(axes, rows, strict=True)]), key=lambda entry: -entry[1].shape[1])
    left = f"y{axes}"
    for axis, x in longest_first:
        if axis != axes[m]:
            summed = left.replace(axis, "").replace("z", "") + "z"
            T, left = torch.einsum(f"{left},y{axis}z->{summed}", T, x), summed
    return T


def lowest(dtype: torch.dtype) -> float:
    """An exponent whose exp is a normal number, but too small to change a sum with a term 1; kernels replace smaller
    exponents by it.
    """
    return 0.9 * math.log(torch.finfo(dtype).tiny)


def summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the forward pass over the weights of a query, in a dtype; a chunk is summed over one set after
    another.
    """
    return block_sum(call.order, *_sizes(call)[:2])


def gradient_summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the backward pass in a dtype."""
    longest, chunks, rows, count = _sizes(call)
    return block_gradient_sum(call.order, longest, chunks, rows, count)


def _sizes(call: Call) -> tuple[int, int, int, int]:
    """The largest numbers of roundings in a chunk's sum, and of chunks and queries in a block; the number of blocks."""
    cut = [block for block in blocks(call) if block.heads.start == 0]
    sizes = [(sum(block.sizes), block.chunks, block.queries[1] - block.queries[0]) for block in cut]
    longest, chunks, rows = (max(column) for column in zip(*sizes, strict=True)) if sizes else (0, 0, 0)
    return longest, chunks, rows, len(cut)


def takes(call: Call, dtype: torch.dtype | None = None) -> bool:
    """True: PyTorch's operators support every call."""
    return True


def unproved(call: Call, dtype: torch.dtype) -> str | None:
    """None, because the assumptions about PyTorch's products are measured on each device."""
    return None
