"""A few rows at a time of the column-wise Kronecker product, built, used and folded back without holding the rest.

Alman and Song, "How to Capture Higher-order Correlations?", Definition 2.4. A row of the product is a tuple of rows,
one of each set. With the sets sorted by length, a chunk of rows is a range of the *longest* set times a range of the
*second* times one row of each *other*, so that building it costs one multiplication an entry whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from torch import Tensor, mul

from separatrix.attention.schedule import Box, Range


@dataclass(frozen=True)
class Chunk:
    """A range of rows of each set, at most two of them longer than one; `shape` is (second's, longest's) lengths."""

    rows: tuple[Range, ...]
    shape: tuple[int, int]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


def by_length(lengths: Sequence[int]) -> list[int]:
    """The sets from the shortest to the longest, later ones last among equals."""
    return sorted(range(len(lengths)), key=lambda m: lengths[m])


def chunks(box: Box, sets: Sequence[int], size: int) -> Iterator[Chunk]:
    """Split the tuples of a box into chunks of at most `size`; `sets` orders the key sets, the longest last."""
    *others, longest = sets
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
    for chosen in product(*ranges):
        rows = tuple(found for _, found in sorted(zip(sets, chosen, strict=True)))
        second = chosen[-2] if others else (0, 1)
        yield Chunk(rows, (second[1] - second[0], chosen[-1][1] - chosen[-1][0]))


class KroneckerRows:
    """Chunks of rows of the column-wise Kronecker product of (H, L_m, x) sets, in memory used again by the next."""

    def __init__(self, sets: Sequence[Tensor], order: Sequence[int], capacity: int) -> None:
        self._sets = sets
        self._order = order
        self._memory = sets[0].new_empty(sets[0].shape[0], capacity, sets[0].shape[2])

    def _cut(self, chunk: Chunk) -> list[Tensor]:
        """The sets' rows of a chunk, ready to broadcast over (H, second, longest, x)."""
        *others, longest = (self._sets[m][:, slice(*chunk.rows[m])] for m in self._order)
        return [*(x.unsqueeze(2) for x in others), longest.unsqueeze(1)]

    def build(self, chunk: Chunk) -> Tensor:
        """(H, chunk.size, x): the rows of a chunk."""
        *others, longest = self._cut(chunk)
        if not others:
            return longest.squeeze(1)
        prefix = others[0]
        for x in others[1:]:
            prefix = prefix * x
        rows = self._memory[:, : chunk.size]
        mul(prefix, longest, out=rows.unflatten(1, chunk.shape))
        return rows

    def fold(self, chunk: Chunk, gradient: Tensor, gradients: Sequence[Tensor]) -> None:
        """Add the gradient (H, chunk.size, x) of a chunk's rows to the gradients of the sets it was built from."""
        cut = self._cut(chunk)
        if len(cut) == 1:
            gradients[0][:, slice(*chunk.rows[0])] += gradient
            return
        gradient = gradient.unflatten(1, chunk.shape)
        scratch = self._memory[:, : chunk.size].unflatten(1, chunk.shape)
        *others, longest = cut
        prefix = others[0]
        for x in others[1:]:
            prefix = prefix * x
        m = self._order[-1]
        gradients[m][:, slice(*chunk.rows[m])] += mul(gradient, prefix, out=scratch).sum(1)
        along_prefix = mul(gradient, longest, out=scratch).sum(2, keepdim=True)
        for here, m in enumerate(self._order[:-1]):
            found = along_prefix
            for other, x in enumerate(others):
                if other != here:
                    found = found * x
            if here < len(others) - 1:
                found = found.sum(1, keepdim=True)
            gradients[m][:, slice(*chunk.rows[m])] += found.squeeze(2)
