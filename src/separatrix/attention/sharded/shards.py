"""The layout of the key sets of one sequence over many ranks, and how they are sent between ranks.

All sets but the last are gathered; the blocks of the last set are passed around a ring, in the backward pass together
with their gradients. The local computation between two collectives ends in a barrier (see `agreement`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from separatrix.attention.sharded.agreement import RankPass
from separatrix.attention.sharded.collectives import Ranks


@dataclass(frozen=True)
class RingStep:
    """The operator's arguments between the queries and the scale, for one block of the ring. `hidden` is the number of
    masked keys before the block.
    """

    keys: list[Tensor]
    values: list[Tensor]
    masks: list[Tensor]
    is_causal: bool
    offset: int
    windows: list[int]
    hidden: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.keys, self.values, self.masks, self.is_causal, self.offset, self.windows


@dataclass(frozen=True)
class Ring:
    """Two buffers for blocks, the current block first, and two for their gradients, or none."""

    blocks: list[Tensor]
    grads: list[Tensor]


@dataclass(frozen=True)
class Shards:
    """The layout of the sequence of call `number`: `lengths[r][m]` tokens of key set m on rank r."""

    ranks: Ranks
    number: int
    lengths: tuple[tuple[int, ...], ...]
    scale: float
    is_causal: bool

    def _sizes(self, rank: int, keys: Sequence[Tensor], values: Sequence[Tensor]) -> list[tuple[int, ...]]:
        """The shapes of a rank's gathered sets: its keys, then its values."""
        gathered, lengths = (*keys[:-1], *values[:-1]), self.lengths[rank][:-1] * 2
        return [(x.shape[0], length, x.shape[2]) for x, length in zip(gathered, lengths, strict=True)]

    def _room(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> int:
        ranks = range(self.ranks.count)
        return max(sum(math.prod(size) for size in self._sizes(rank, keys, values)) for rank in ranks)

    def gathered(
        self, forward: RankPass, keys: Sequence[Tensor], values: Sequence[Tensor]
    ) -> Callable[[], tuple[list[Tensor], list[Tensor]]]:
        """Gather all key and value sets but the last. The returned function concatenates the shards of each set."""
        sets = len(keys) - 1
        if sets == 0:
            return lambda: ([], [])

        def pack() -> tuple[Tensor, Tensor]:
            flat = torch.cat([x.flatten() for x in (*keys[:-1], *values[:-1])])
            flat = pad(flat, (0, self._room(keys, values) - len(flat)))
            return flat, flat.new_empty(self.ranks.count, len(flat))

        def unpack() -> tuple[list[Tensor], list[Tensor]]:
            parts = [_unpack(row, self._sizes(rank, keys, values)) for rank, row in enumerate(rows)]
            whole = [torch.cat(pieces, 1) for pieces in zip(*parts, strict=True)]
            return whole[:sets], whole[sets:]

        flat, rows = forward.synchronize(pack)
        self.ranks.gather(flat, rows)
        return unpack

    def scattered(
        self, backward: RankPass, whole: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor]
    ) -> list[Tensor]:
        """Reduce-scatter `whole`, tensors of the shapes of the gathered keys and values, and return this rank's
        part."""
        if not whole:
            return []
        sets = len(keys) - 1

        def pack() -> tuple[Tensor, Tensor]:
            pieces = [x.split([lengths[m % sets] for lengths in self.lengths], 1) for m, x in enumerate(whole)]
            room = self._room(keys, values)
            rows = [torch.cat([piece.flatten() for piece in mine]) for mine in zip(*pieces, strict=True)]
            stacked = torch.stack([pad(row, (0, room - len(row))) for row in rows])
            return stacked, torch.empty_like(stacked[0])

        stacked, total = backward.synchronize(pack)
        self.ranks.scatter_sum(stacked, total)
        return _unpack(total, self._sizes(self.ranks.rank, keys, values))

    def around(
        self, passing: RankPass, ring: Ring, visit: Callable[[int, Tensor, Tensor | None], None]
    ) -> Tensor | None:
        """Call `visit(rank, block, gradient)` for each block of the last set, beginning with this rank's block.

        The next block is sent while the current one is visited. `visit` adds to the gradient, if the ring has
        gradients; the gradient is sent with its block, and the gradient of this rank's block is returned.
        """
        ranks, owner = self.ranks, self.ranks.rank
        for left in reversed(range(ranks.count)):
            following = (owner - 1) % ranks.count
            block, grad = (self._view(pair, owner, 0) for pair in (ring.blocks, ring.grads))
            coming, coming_grad = (self._view(pair, following, 1) for pair in (ring.blocks, ring.grads))
            assert block is not None
            assert coming is not None
            arriving = ranks.pass_on(block, coming) if left else None
            passing.synchronize(partial(visit, owner, block, grad), arriving)
            ring.blocks.reverse()
            if grad is not None and coming_grad is not None:
                ranks.pass_on(grad, coming_grad, tag=1)()
                ring.grads.reverse()
            owner = following
        return self._view(ring.grads, owner, 0)

    def ring(self, key: Tensor, value: Tensor, *, grads: torch.dtype | None = None) -> Ring:
        """Two buffers, of which the first holds this rank's block [K, V] of the last set; with a dtype `grads`, also
        two buffers for gradients.
        """
        heads, _, d = key.shape
        shape = heads, max(lengths[-1] for lengths in self.lengths), d + value.shape[2]
        blocks = [key.new_empty(shape) for _ in range(2)]
        own = self._view(blocks, self.ranks.rank, 0)
        assert own is not None
        torch.cat([key, value], -1, out=own)
        return Ring(blocks, [] if grads is None else [key.new_zeros(shape, dtype=grads) for _ in range(2)])

    def _view(self, pair: Sequence[Tensor], owner: int, which: int) -> Tensor | None:
        """A view of a rank's block at the beginning of a buffer of the size of the longest block."""
        if not pair:
            return None
        heads, _, width = pair[which].shape
        shape = heads, self.lengths[owner][-1], width
        return pair[which].flatten()[: math.prod(shape)].view(shape)

    def step(
        self, owner: int, block: Tensor, keys: list[Tensor], values: list[Tensor], query: Tensor
    ) -> RingStep | None:
        """The operator's arguments for a block and the gathered sets; None if this rank's queries attend no key of the
        block.

        Tensors that were sent in a half type are converted to the dtype of `query`, because the operator takes tensors
        of one dtype.
        """
        block, d = block.to(query.dtype), query.shape[2]
        key, value = block[..., :d], block[..., d:]
        keys, values = ([x.to(query.dtype) for x in sets] for sets in (keys, values))
        none = [0] * (len(keys) + 1)
        if not self.is_causal:
            return RingStep([*keys, key], [*values, value], [], False, 0, none, 0)
        if owner > self.ranks.rank:
            return None
        length = key.shape[1]
        before = self.ranks.rank * length
        keys, values = ([x[:, : before + length] for x in sets] for sets in (keys, values))
        if owner < self.ranks.rank:  # this rank's queries attend the whole block, whatever its positions are
            return RingStep([*keys, key], [*values, value], [], True, before, none, 0)
        if not keys or before == 0:
            return RingStep([*keys, key], [*values, value], [], True, 0, none, 0)
        key, value = (pad(x, (0, 0, before, 0)) for x in (key, value))
        seen = torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        own = seen.clone()
        own[:, :before] = False
        # A window of the block's length hides no key of the block, and skips most of the work on the masked keys.
        return RingStep(
            [*keys, key], [*values, value], [*[seen] * len(keys), own], True, before, [*none[1:], length], before
        )


def _unpack(row: Tensor, sizes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    counts = [math.prod(size) for size in sizes]
    parts = row[: sum(counts)].split(counts)
    return [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]
