"""The column-wise Kronecker product, a few rows at a time: rows are built, used and reduced without storing the others.

Alman and Song, "How to Capture Higher-order Correlations?", Definition 2.4. A row of the product is a tuple of rows,
one of each set. With the sets of a box sorted by length, a chunk of rows is a range of the *longest* set times a
range of the *second* times one row of each *other*, so that building it costs one multiplication an entry whatever the
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from torch import Tensor, mul

from separatrix.attention.call import Range
from separatrix.attention.exact.torch.schedule import Box


class Chunk(NamedTuple):
    """A range of rows of each set, at most two of them longer than one; `shape` is (second's, longest's) lengths.

    `order` names the sets from the shortest to the longest.
    """

    rows: tuple[Range, ...]
    shape: tuple[int, int]
    order: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


def chunks(box: Box, size: int) -> Iterator[Chunk]:
    """Split the tuples of a box into chunks of at most `size`; of equally long sets the last is the longest."""
    order = tuple(sorted(range(len(box.keys)), key=lambda m: box.keys[m][1] - box.keys[m][0]))
    *others, longest = order
    start, stop = box.keys[longest]
    pieces = -(-(stop - start) // size)
    inner = [
        (start + (stop - start) * piece // pieces, start + (stop - start) * (piece + 1) // pieces)
        for piece in range(pieces)
    ]
    ranges: list[list[Range]] = [[(j, j + 1) for j in range(*box.keys[m])] for m in others[:-1]]
    if others:
        at_once = size // (stop - start) if pieces == 1 else 1
        low, high = box.keys[others[-1]]
        ranges.append([(j, min(j + at_once, high)) for j in range(low, high, at_once)])
    ranges.append(inner)
    place = [order.index(m) for m in range(len(order))]
    for chosen in product(*ranges):
        second = chosen[-2] if others else (0, 1)
        shape = (second[1] - second[0], chosen[-1][1] - chosen[-1][0])
        yield Chunk(tuple(chosen[i] for i in place), shape, order)


class KroneckerRows:
    """Chunks of rows of the column-wise Kronecker product of (H, L_m, x) sets, in memory used again by the next."""

    def __init__(self, sets: Sequence[Tensor], capacity: int) -> None:
        self._as_prefix = [x.unsqueeze(2) for x in sets]
        self._as_longest = [x.unsqueeze(1) for x in sets]
        self._memory = sets[0].new_empty(sets[0].shape[0], capacity, sets[0].shape[2])
        self._views: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def _prefix(self, chunk: Chunk) -> Tensor:
        """(H, second, 1, x): the products of the rows of all sets but the longest."""
        prefix = None
        for m in chunk.order[:-1]:
            start, stop = chunk.rows[m]
            rows = self._as_prefix[m][:, start:stop]
            prefix = rows if prefix is None else prefix * rows
        assert prefix is not None
        return prefix

    def _inner(self, chunk: Chunk) -> Tensor:
        longest = chunk.order[-1]
        start, stop = chunk.rows[longest]
        whole = self._as_longest[longest]
        return whole if stop - start == whole.shape[2] else whole[:, :, start:stop]

    def build(self, chunk: Chunk) -> Tensor:
        """(H, chunk.size, x): the rows of a chunk; the same tensor for chunks of the same shape, at order >= 3."""
        if len(chunk.order) == 1:
            return self._inner(chunk).squeeze(1)
        if chunk.shape not in self._views:
            rows = self._memory[:, : chunk.size]
            self._views[chunk.shape] = rows, rows.unflatten(1, chunk.shape)
        rows, product = self._views[chunk.shape]
        mul(self._prefix(chunk), self._inner(chunk), out=product)
        return rows

    def fold(self, chunk: Chunk, gradient: Tensor, gradients: Sequence[Tensor]) -> None:
        """Add the gradient (H, chunk.size, x) of a chunk's rows to the gradients of the sets it was built from."""
        *order, longest = chunk.order
        if not order:
            gradients[longest][:, slice(*chunk.rows[longest])] += gradient
            return
        gradient = gradient.unflatten(1, chunk.shape)
        scratch = self._memory[:, : chunk.size].unflatten(1, chunk.shape)
        mul(gradient, self._prefix(chunk), out=scratch)
        gradients[longest][:, slice(*chunk.rows[longest])] += scratch.sum(1)
        along_prefix = mul(gradient, self._inner(chunk), out=scratch).sum(2, keepdim=True)
        others = [self._as_prefix[m][:, slice(*chunk.rows[m])] for m in order]
        for here, m in enumerate(order):
            gradient_of_set = along_prefix
            for other, x in enumerate(others):
                if other != here:
                    gradient_of_set = gradient_of_set * x
            if here < len(others) - 1:
                gradient_of_set = gradient_of_set.sum(1, keepdim=True)
            gradients[m][:, slice(*chunk.rows[m])] += gradient_of_set.squeeze(2)
