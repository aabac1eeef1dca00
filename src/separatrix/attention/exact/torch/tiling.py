"""How the volume of a call is cut into blocks that stay in cache: a pure function of shapes, dtype and constants."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from separatrix.attention.arithmetic.rounding import Summation, block_gradient_sum, block_sum
from separatrix.attention.call import Call, Range
from separatrix.attention.exact.torch.kronecker_rows import chunks
from separatrix.attention.exact.torch.schedule import Box, boxes

_BLOCK = {"cpu": 1 << 21}
"""The bytes of a block of scores: on the CPU, half of the second-level caches of two cores."""
_BLOCK_ELSEWHERE = 1 << 26
_ROWS = 512
"""The largest number of queries in a block: with more, the products are no faster."""


PARTS = 2
"""The parts of `split_of`; a chunk's rows of K and V are built for each, by the thread that will read them."""


@dataclass(frozen=True)
class Tiling:
    """How the volume of some heads is cut: the boxes, and a block's number of scores."""

    boxes: list[Box]
    rows: int
    block: int
    width: int
    heads: int

    def chunk_size(self, box: Box) -> int:
        """The number of tuples in a chunk: the scores fill a block, the rows of K and V with copies half a block."""
        rows = min(self.rows, box.queries[1] - box.queries[0])
        return max(1, min(self.block // (self.heads * rows), self.block // (2 * max(PARTS, self.heads) * self.width)))

    @property
    def capacity(self) -> int:
        return max((self.chunk_size(box) for box in self.boxes), default=0)

    def row_blocks(self, box: Box) -> list[Range]:
        start, stop = box.queries
        pieces = -(-(stop - start) // self.rows)
        edges = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
        return list(pairwise(edges))


def split_of(heads: int, rows: int) -> int:
    """The batch size that the matrix product of one head is split into, along its rows.

    PyTorch divides a batched product, the exponential and the sum that follow it among threads along the batch, so that
    each thread finds its part in its own cache. It divides a single product in another way than the exponential.
    """
    return heads if heads > 1 or rows % PARTS or rows < 8 * PARTS else PARTS


def tiling_of(call: Call, dtype: torch.dtype | None = None) -> Tiling:
    """The tiling of a call that is computed in a dtype; by default the dtype of the call."""
    size = (dtype or call.query.dtype).itemsize
    query_length, lengths = call.query.shape[1], [key.shape[1] for key in call.keys]
    cut = boxes(query_length, lengths, call.positions)
    block = _BLOCK.get(call.query.device.type, _BLOCK_ELSEWHERE) // size
    rows = min(_ROWS, max(query_length, 1))
    width = call.query.shape[2] + call.values[0].shape[2]
    volume = max((rows * box.tuples for box in cut), default=1)
    heads = max(1, min(call.query.shape[0], block // max(1, volume)))
    return Tiling(cut, rows, block, width, heads)


def summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the forward pass over the weights of a query, in a dtype."""
    tiling = tiling_of(call, dtype)
    return block_sum(len(call.keys) + 1, _longest_chunk(tiling), _count_chunks(tiling))


def gradient_summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the backward pass in a dtype."""
    tiling = tiling_of(call, dtype)
    row_blocks = max((len(tiling.row_blocks(box)) for box in tiling.boxes), default=0)
    return block_gradient_sum(
        len(call.keys) + 1,
        _longest_chunk(tiling),
        _count_chunks(tiling),
        tiling.rows,
        row_blocks * len(tiling.boxes),
    )


def takes(call: Call, dtype: torch.dtype | None = None) -> bool:
    """This backend supports every call."""
    return True


def unproved(call: Call, dtype: torch.dtype) -> str | None:
    """None, because the assumptions about PyTorch's products are measured on each device."""
    return None


def _longest_chunk(tiling: Tiling) -> int:
    return max((min(tiling.chunk_size(box), box.tuples) for box in tiling.boxes), default=0)


def _count_chunks(tiling: Tiling) -> int:
    return sum(1 for box in tiling.boxes for _ in chunks(box, tiling.chunk_size(box)))
