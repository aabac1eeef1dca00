"""The scores of a few queries and a few tuples at a time, and the log-sum-exp of all scores so far.

The tuples of a box, one range of keys of each set, are visited in lexicographic order: the last index runs fastest. A
block is a range in that order; only one block of scores is stored at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions, check_arguments
from separatrix.attention.arithmetic.device_reads import number, numbers, truth
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.call import Call, Range, grouped
from separatrix.attention.exact.balance import Balance, Magnitudes
from separatrix.errors import ArgumentError

BLOCK = 1 << 19
"""The number of scores of a block: 2 MiB in float32, which fits into a core's cache."""
ROWS = 128
"""The largest number of queries of a block: with more, a causal mask would hide a larger part of the block."""
_FARTHEST = 2**63 - 1
"""A window of this length contains all earlier positions; longer windows are replaced by it."""


def checked(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    **options: Unpack[CallOptions],
) -> Call:
    """The call for these arguments, with ones for values; an `ArgumentError` if one is invalid."""
    # The keys are passed as values too: they satisfy all constraints on values.
    given = check_arguments(query, keys, keys, **options)
    for index, x in enumerate((given.query, *given.keys)):
        if x.device.type == "meta":
            raise ArgumentError(given.name(index), expected="a tensor with numbers", got="one on the device 'meta'")
    call = grouped(replace(given, values=tuple(key.new_ones(1).expand(*key.shape[:-1], 1) for key in given.keys)))
    near = tuple(None if window is None else min(window, _FARTHEST) for window in call.positions.windows)
    return replace(call, positions=replace(call.positions, windows=near))


def of_heads(call: Call, heads: Range) -> Call:
    """The call of a range of heads, in the dtype in which its scores are computed: float32 or float64, with factors
    that do not overflow. Masked keys are zero. If PyTorch may compute float32 products with reduced precision, the
    dtype is float64.
    """
    part = call.of_heads(heads).widened()
    if part.query.dtype == torch.float32 and not float32_products_are_float32(part.query.device.type):
        part = part.to(torch.float64)
    magnitudes = Magnitudes.of(part)
    broken = ~torch.isfinite(magnitudes.scores).flatten(1).all(1)
    if truth(broken.any()):
        name = call.name(int(number(broken.nonzero()[0])))
        raise ArgumentError(name, expected="finite numbers, by which tuples can be compared", got="NaN or infinity")
    return part if magnitudes.moderate() else Balance.of(part, magnitudes).call


class Cut(NamedTuple):
    """The numbers of queries, heads and tuples of a call that are processed together."""

    queries: int
    heads: int
    tuples: int


def cut(call: Call, queries: int, listed: int = 1) -> Cut:
    """The sizes of the pieces of a call, so that the scores, the keys and the listed tuples of a piece each fit in a
    block.

    `queries` queries of a call with at least one tuple are processed, and `listed` tuples are listed for each.
    """
    volume, d = math.prod(call.key_lengths), call.query.shape[2]
    rows = max(1, min(ROWS, queries, BLOCK // listed))
    heads = max(1, min(call.query.shape[0], BLOCK // (rows * volume), BLOCK // (sum(call.key_lengths) * d)))
    return Cut(rows, heads, max(1, BLOCK // (heads * rows)))


class ScoreBlock(NamedTuple):
    """Scores (H, queries, stop - start) of the tuples from `start` to `stop` of a box; -inf where none is allowed."""

    start: int
    stop: int
    scores: Tensor


def blocks(call: Call, queries: Tensor, box: Sequence[Range], size: int) -> Iterator[ScoreBlock]:
    """The scores of some queries of a call of `of_heads` against all tuples of a box, about `size` tuples at a time.

    The queries are multiplied with the keys of all sets but the last, and these products are multiplied by the last set
    in a matrix product: a score takes d multiply-adds at any order.

    `queries` are indices in ascending order, and the box has a range of keys for each set.

    Yields:
        The blocks, in lexicographic order of the tuples. The memory of a block's scores may be overwritten.
    """
    *before, (low, high) = box
    rows = call.query[:, queries]
    heads, count, d = rows.shape
    prefixes, width = math.prod(stop - start for start, stop in before), min(high - low, size)
    together = max(1, min(size // (high - low), BLOCK // (heads * count * d)))
    for first in range(0, prefixes, together):
        index = unravelled(torch.arange(first, min(first + together, prefixes), device=queries.device), before)
        left = rows.unsqueeze(2)
        for key, at in zip(call.keys, index, strict=False):
            left = left * key.index_select(1, at).unsqueeze(1)
        alike = left.shape[2]
        for start in range(low, high, width):
            last = torch.arange(start, min(start + width, high), device=queries.device)
            scores = torch.bmm(left.flatten(1, 2), call.keys[-1][:, start : start + len(last)].mT).mul_(call.scale)
            by_prefix = scores.view(heads, count, alike, len(last))
            for m, at in enumerate(index):
                _hide(by_prefix, call, m, queries, at)
            _hide(by_prefix.transpose(2, 3), call, len(index), queries, last)
            place = first * (high - low) + start - low
            yield ScoreBlock(place, place + alike * len(last), by_prefix.flatten(2))


def _hide(scores: Tensor, call: Call, m: int, queries: Tensor, keys: Tensor) -> None:
    """Set scores (H, queries, keys, others) to -inf for keys of set m that a query may not attend to."""
    length = call.keys[m].shape[1]
    first, last, lowest, highest = numbers(torch.stack([queries[0], queries[-1], keys.min(), keys.max()]))
    seen_from = call.positions.visible(m, last, length)[0]
    seen_to = call.positions.visible(m, first, length)[1]
    if lowest < seen_from or highest >= seen_to:
        scores.masked_fill_(~call.positions.allowed_to(m, queries, keys).unsqueeze(-1), -math.inf)
    if call.masks:
        scores.masked_fill_(~call.masks[m][:, keys][:, None, :, None], -math.inf)


def unravelled(places: Tensor, box: Sequence[Range]) -> list[Tensor]:
    """The keys of each set in the tuples of a box at these indices.

    >>> [at.tolist() for at in unravelled(torch.arange(4), [(5, 7), (0, 2)])]
    [[5, 5, 6, 6], [0, 1, 0, 1]]
    """
    keys = []
    for start, stop in reversed(box):
        keys.append(places % (stop - start) + start)
        places = places // (stop - start)
    return keys[::-1]


@dataclass
class LogSum:
    """The log-sum-exp of scores that are given in blocks, (H, queries); the sums of the blocks are added in float64.

    Attributes:
        largest: The largest score so far.
        total: The sum of exp(score - largest).
    """

    largest: Tensor
    total: Tensor

    @classmethod
    def empty(cls, heads: int, queries: int, device: torch.device) -> LogSum:
        """The log-sum-exp of no scores, -inf."""
        zeros = torch.zeros(heads, queries, dtype=torch.float64, device=device)
        return cls(zeros - math.inf, zeros)

    def add(self, scores: Tensor, largest: Tensor) -> Tensor:
        """Add scores (H, queries, tuples) whose maxima are `largest`; their memory is overwritten.

        Returns:
            The terms that were added to the total, exp(score - `self.largest`), or 0 where `self.largest` is -inf.
        """
        new = torch.maximum(self.largest, largest.to(torch.float64))
        shift = new.masked_fill(new == -math.inf, 0.0)
        # In a narrower dtype the difference is rounded to this dtype, like the score itself.
        terms = scores.sub_(shift.to(scores.dtype).unsqueeze(-1)).exp_()
        self.total = self.total * (self.largest - shift).exp() + terms.sum(-1).to(torch.float64)
        self.largest = new
        return terms

    def share(self, scores: Tensor) -> Tensor:
        """The share exp(score) / sum of scores (H, queries, ...) in float64; 0 for -inf, even if all scores are -inf.

        The largest score is subtracted first, exactly or nearly so. Subtracting the log-sum-exp would be inaccurate:
        for scores of 1e15, its rounding error in float64 is about 0.1.
        """
        rows = (slice(None), slice(None), *[None] * (scores.dim() - 2))
        largest = self.largest.masked_fill(self.largest == -math.inf, 0.0)
        return (scores.to(torch.float64) - largest[rows]).exp() / self.total.masked_fill(self.total == 0, 1.0)[rows]

    def value(self) -> Tensor:
        """The log-sum-exp in float64."""
        return self.largest + self.total.log()
