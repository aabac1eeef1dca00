"""The parts of a block that causality or a window hides, and which queries may attend which keys of them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from separatrix.attention.call import Positions, Range
from separatrix.attention.exact.torch.kronecker_rows import Chunk
from separatrix.attention.exact.torch.schedule import Box


class Contested:
    """The (query, key) pairs that some queries of a block may attend and others not.

    The table of allowed pairs is computed once for all blocks with the same relative positions of queries and keys.
    """

    def __init__(self, positions: Positions, like: Tensor) -> None:
        self._positions, self._like = positions, like
        self._made: dict[tuple[int | None, int, int, int], Tensor] = {}

    def parts(self, P: Tensor, box: Box, chunk: Chunk, rows: Range) -> Iterator[tuple[Tensor, Tensor]]:
        """The contested parts of (H, rows, chunk), as views, each with 1 where a query may attend and 0 elsewhere."""
        masked = (rows[0], min(rows[1], box.queries[0] + box.masked))
        if masked[0] >= masked[1]:
            return
        block = None
        for m in chunk.order:
            first = chunk.rows[m][0]
            start, stop = self._positions.contested(m, masked, chunk.rows[m])
            if start < stop:
                if block is None:
                    block = P[:, : masked[1] - masked[0]].unflatten(2, chunk.shape)
                may = self._table(m, masked, (start, stop))
                if m == chunk.order[-1]:
                    yield block[..., start - first : stop - first], may.unsqueeze(1)
                elif m == chunk.order[-2]:
                    yield block[:, :, start - first : stop - first], may.unsqueeze(2)
                else:  # a chunk has one row of such a set
                    yield block, may.unsqueeze(2)

    def _table(self, m: int, queries: Range, keys: Range) -> Tensor:
        key = (self._positions.windows[m], queries[0] - keys[0], queries[1] - queries[0], keys[1] - keys[0])
        if key not in self._made:
            may = self._positions.allowed(m, queries, torch.arange(*keys, device=self._like.device))
            self._made[key] = may.to(self._like.dtype)
        return self._made[key]
