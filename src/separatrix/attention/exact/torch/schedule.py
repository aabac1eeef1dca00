"""Which blocks of the (query, key tuple) volume are worth visiting: a pure function of lengths and positions.

Causal attention of order k fills 1/k of the volume, a window less. The volume is cut into boxes, each a range of
queries times a range of every key set, so that boxes with nothing to attend are never visited and a box needs a mask
in its first rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from separatrix.attention.call import Positions, Range

_LAUNCH = 1 << 16
"""How many scores are computed in the time that PyTorch takes to launch the operations on a chunk."""
_ROWS = 16
"""How many more queries a product of few queries takes the time of."""


@dataclass(frozen=True)
class Box:
    """Queries times one range of each key set; only the first `masked` queries do not attend all of it."""

    queries: Range
    keys: tuple[Range, ...]
    masked: int

    @property
    def tuples(self) -> int:
        count = 1
        for start, stop in self.keys:
            count *= stop - start
        return count


def boxes(query_length: int, key_lengths: Sequence[int], positions: Positions) -> list[Box]:
    """Cut the volume into disjoint boxes that cover every allowed (query, tuple) pair.

    >>> boxes(4, [4, 4], Positions(False, 0, (None, None)))
    [Box(queries=(0, 4), keys=((0, 4), (0, 4)), masked=0)]
    """
    if positions.has_window:
        cut = _windowed(query_length, key_lengths, positions)
    elif positions.is_causal:
        cut = _causal(query_length, key_lengths, positions.offset)
    else:
        cut = [Box((0, query_length), tuple((0, length) for length in key_lengths), 0)]
    return [box for box in cut if box.tuples and box.queries[0] < box.queries[1]]


def _causal(query_length: int, key_lengths: Sequence[int], offset: int) -> list[Box]:
    """Group tuples by the block [low, high) that contains their largest index.

    Every query at position high - 1 or later sees all of these tuples; queries from position low on see some of them.
    Splitting them by the first set that reaches the block makes boxes.
    """
    end = min(max(key_lengths), query_length + offset)
    width = min(32, max(8, query_length // 16))
    # Counted from the end, so that all boxes but the first have a multiple of the width in queries.
    seen_by_all = [offset + 1] if width <= offset < end else []
    edges = sorted({0, *seen_by_all, *range(end, max(seen_by_all, default=0), -width)}) if end > 0 else []
    cut = []
    for low, high in pairwise(edges):
        first = max(0, low - offset)
        masked = max(0, min(query_length, high - 1 - offset) - first)
        for reaches in range(len(key_lengths)):
            keys = []
            for m, length in enumerate(key_lengths):
                start = low if m == reaches else 0
                stop = low if m < reaches else high
                keys.append((min(start, length), min(stop, length)))
            cut.append(Box((first, query_length), tuple(keys), masked))
    return cut


def _windowed(query_length: int, key_lengths: Sequence[int], positions: Positions) -> list[Box]:
    """One box for each block of queries, over the union of the keys that they may attend; all rows need a mask."""
    rows = _windowed_rows(query_length, key_lengths, positions)
    cut = []
    for first in range(0, query_length, rows):
        last = min(query_length, first + rows) - 1
        keys = []
        for m, length in enumerate(key_lengths):
            start, stop = positions.visible(m, first, length)[0], positions.visible(m, last, length)[1]
            keys.append((start, max(start, stop)))
        cut.append(Box((first, last + 1), tuple(keys), last + 1 - first))
    return cut


def _windowed_rows(query_length: int, key_lengths: Sequence[int], positions: Positions) -> int:
    """The number of queries in a box, a power of two up to 256, that takes the least time by a simple model.

    A box of r queries has up to w + r - 1 keys of a set with window w, of which each query attends w. All of its tuples
    are computed, in chunks that have one key of each set but the two longest (see `kronecker_rows`). Few queries leave
    matrix products at a fraction of their speed, as if there were `_ROWS` more of them.
    """
    reaches = positions.reaches(key_lengths)

    def cost(rows: int) -> int:
        keys = sorted(min(reach + rows - 1, length) for reach, length in zip(reaches, key_lengths, strict=True))
        return -(-query_length // rows) * (prod(keys[:-2]) * _LAUNCH + (rows + _ROWS) * prod(keys))

    return min((1, 2, 4, 8, 16, 32, 64, 128, 256), key=cost)
