r"""Forward mode for exact attention: how output and log-sum-exp change with the inputs, block by block.

With a prime for a change, P = exp(S - lse) and the rows of K and V as in `passes`,

    S' = scale (Q' K^T + Q K'^T),    lse' = sum_t P_t S'_t,    out' = sum_t P_t (S'_t V_t + V'_t) - lse' out

The change of the column-wise Kronecker product K is the sum, over the key sets, of the product with that set replaced
by its change. No tensor of the size of the attention tensor is stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.attention.call import Call, Changes
from separatrix.attention.exact.torch.contested import Contested
from separatrix.attention.exact.torch.kronecker_rows import Chunk, KroneckerRows, chunks
from separatrix.attention.exact.torch.tiling import Tiling, tiling_of


def tangents(call: Call, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
    """The changes of output (H, L_q, d_v) and log-sum-exp (H, L_q); 0 for a query with nothing to attend.

    Args:
        call: The call. Keys and values that a mask hides are zero in it, and so are their changes.
        out: The output of the call.
        lse: The log-sum-exp of the call.
        changes: The changes of query, keys and values.
    """
    tiling = tiling_of(call)
    out_dot, lse_dot = torch.zeros_like(out), torch.zeros_like(lse)
    empty = lse == -math.inf
    shift = lse.masked_fill(empty, 0.0)
    for first in range(0, call.query.shape[0] if tiling.boxes else 0, tiling.heads):
        group = slice(first, first + tiling.heads)
        query, keys, values = changes
        here = (query[group], tuple(x[group] for x in keys), tuple(x[group] for x in values))
        _add_up(call.of_heads(group), tiling, shift[group], here, out_dot[group], lse_dot[group])
    out_dot -= lse_dot.unsqueeze(-1) * out
    return out_dot.masked_fill_(empty.unsqueeze(-1), 0.0), lse_dot.masked_fill_(empty, 0.0)


class _TangentRows:
    """The rows of K and V of a chunk, with a column of ones after those of K, and their changes, with one of zeros."""

    def __init__(self, call: Call, changes: Changes, capacity: int) -> None:
        sets = _widened(call.keys, call.values, 1.0)
        moved = _widened(*changes[1:], 0.0)
        # The column of ones becomes one of zeros in each term of the sum.
        self._rows = KroneckerRows(sets, capacity)
        self._terms = [KroneckerRows([*sets[:m], x, *sets[m + 1 :]], capacity) for m, x in enumerate(moved)]

    def build(self, chunk: Chunk) -> tuple[Tensor, Tensor]:
        first, *others = (rows.build(chunk) for rows in self._terms)
        for term in others:
            first = first + term
        return self._rows.build(chunk), first


def _widened(keys: Sequence[Tensor], values: Sequence[Tensor], column: float) -> list[Tensor]:
    widened = []
    for key, value in zip(keys, values, strict=True):
        widened.append(torch.cat([key, torch.full_like(key[..., :1], column), value], -1))
    return widened


def _add_up(call: Call, tiling: Tiling, shift: Tensor, changes: Changes, out_dot: Tensor, lse_dot: Tensor) -> None:
    """Add sum_t P_t (S'_t V_t + V'_t) and sum_t P_t S'_t to the last two."""
    d = call.query.shape[2]
    left = torch.cat([call.query * call.scale, -shift.unsqueeze(-1)], -1)
    moved = torch.cat([changes[0] * call.scale, torch.zeros_like(shift).unsqueeze(-1)], -1)
    rows_of = _TangentRows(call, changes, tiling.capacity)
    contested = Contested(call.positions, left)
    # Scores far below the largest are raised to where exp is still normal, and vanish in every sum all the same.
    lowest = 0.9 * math.log(torch.finfo(left.dtype).tiny)
    for box in tiling.boxes:
        for chunk in chunks(box, tiling.chunk_size(box)):
            built, changed = rows_of.build(chunk)
            (k, v), (k_dot, v_dot) = ((x[..., : d + 1], x[..., d + 1 :]) for x in (built, changed))
            for rows in tiling.row_blocks(box):
                here = slice(*rows)
                P = torch.bmm(left[:, here], k.mT).clamp_(lowest, 1.0).exp_()
                for part, may in contested.parts(P, box, chunk, rows):
                    part.mul_(may)
                S_dot = torch.bmm(moved[:, here], k.mT).baddbmm_(left[:, here], k_dot.mT)
                out_dot[:, here] += torch.bmm(P, v_dot)
                P *= S_dot
                lse_dot[:, here] += P.sum(-1)
                out_dot[:, here] += torch.bmm(P, v)
