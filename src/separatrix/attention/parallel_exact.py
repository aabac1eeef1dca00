r"""Exact attention to a sequence that lies in shards on many ranks: all key sets but one gathered, that one in a ring.

Order k attends tuples of keys, and the keys of a tuple may lie on k - 1 different ranks. All sets but the last are
gathered on every rank; a block of the last is passed from rank to rank, so that each meets every tuple in as many
steps as there are ranks. What a step finds, (o_b, lse_b), is merged by

    lse = log sum_b exp(lse_b),    o = sum_b exp(lse_b - lse) o_b.

The backward pass goes around once more with P = exp(S - lse): the gradient of a block travels with it and comes home
in one step more, those of the gathered sets are summed and scattered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.nn.functional import pad

from separatrix.attention.arguments import Call, check_call
from separatrix.attention.collectives import Ranks, Report, agree, ranks_of
from separatrix.attention.exact import attend, attend_backward, flatten_heads
from separatrix.errors import ArgumentError


def sharded_exact_attention(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    scale: float | None = None,
    is_causal: bool = False,
    group: ProcessGroup | None = None,
) -> Tensor:
    """The rows of exact order-k attention over all ranks' tokens that belong to this rank's queries.

    query, keys, values: this rank's shard, (..., L_q, d), (..., L_m, d) and (..., L_m, d_v); a bare tensor at order 2.
        Lengths may differ between ranks, and be 0. The shards follow each other in the order of the ranks.
    scale: None is the papers' 1/d; the same on every rank.
    is_causal: a query attends no token after its own position in the whole sequence; all lengths must then be equal,
        on all ranks.
    group: the process group, None for the default one. Every rank of it must call, and where any rank's tensors want
        gradients, every rank must run the backward pass: gradients are those of the sum of the ranks' losses.

    A rank holds k - 2 key and value sets of the whole sequence and two blocks of the last. When causal, rank r works
    on r + 1 blocks, so the last rank works longest; and from order 3 on its own block is laid behind r blocks of hidden
    keys, which gives it its place in the sequence. They take memory as another gathered set would, and make this block
    cost 1.3 to 1.7 times what one costs that is visible in full.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> q, k1, k2, v1, v2 = torch.randn(5, 10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> out = sharded_exact_attention(q, [k1, k2], [v1, v2], is_causal=True)
    >>> from separatrix import tensor_attention
    >>> torch.allclose(out, tensor_attention(q, [k1, k2], [v1, v2], is_causal=True))
    True
    >>> dist.destroy_process_group()
    """
    ranks = ranks_of(group)

    def prepare() -> tuple[Call, Report]:
        call = check_call(query, keys, values, is_causal=is_causal, scale=scale)
        configuration = {
            "function": "sharded_exact_attention",
            "order": call.order,
            "head_dim": call.query.shape[-1],
            "value_dim": call.values[0].shape[-1],
            "batch_shape": torch.broadcast_shapes(*(x.shape[:-2] for x in call.tensors)),
            "dtype": str(call.query.dtype),
            "scale": call.scale,
            "is_causal": is_causal,
            "torch.is_grad_enabled()": torch.is_grad_enabled(),
        }
        wants = torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors)
        return call, Report(configuration, (call.query.shape[-2], *(key.shape[-2] for key in call.keys)), wants)

    call, reports = agree(ranks, prepare)
    if is_causal and any(report.lengths != reports[0].lengths for report in reports):
        lengths = [report.lengths[0] for report in reports]
        raise ArgumentError("query", expected="the same length on every rank (is_causal)", got=f"lengths {lengths}")
    batch, q, ks, vs, _ = flatten_heads(call)
    if any(report.wants_gradient for report in reports) and not any(x.requires_grad for x in (q, *ks, *vs)):
        q = q.detach().requires_grad_()  # the backward pass of the other ranks waits for this one
    shards = _Shards(ranks, tuple(report.lengths[1:] for report in reports), call.scale, is_causal)
    out = _sharded_attend(shards, q, *ks, *vs)
    return out.reshape(*batch, *out.shape[1:])


@dataclass(frozen=True)
class _Step:
    """The operator's arguments between the queries and the scale, for one block of the ring.

    `hidden` keys were laid before the block.
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
class _Shards:
    """How the sequence lies: `lengths[r][m]` tokens of key set m on rank r."""

    ranks: Ranks
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

    def gathered(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """All key and value sets but the last, of the whole sequence."""
        sets = len(keys) - 1
        if sets == 0:
            return [], []
        flat = torch.cat([x.flatten() for x in (*keys[:-1], *values[:-1])])
        rows = self.ranks.gather(pad(flat, (0, self._room(keys, values) - len(flat))))
        parts = [_unpack(row, self._sizes(rank, keys, values)) for rank, row in enumerate(rows)]
        whole = [torch.cat(pieces, 1) for pieces in zip(*parts, strict=True)]
        return whole[:sets], whole[sets:]

    def scattered(self, whole: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
        """This rank's part of the sums over ranks of `whole`, tensors shaped as the gathered keys and values are."""
        if not whole:
            return []
        sets = len(keys) - 1
        pieces = [x.split([lengths[m % sets] for lengths in self.lengths], 1) for m, x in enumerate(whole)]
        room = self._room(keys, values)
        rows = [torch.cat([piece.flatten() for piece in mine]) for mine in zip(*pieces, strict=True)]
        total = self.ranks.scatter_sum(torch.stack([pad(row, (0, room - len(row))) for row in rows]))
        return _unpack(total, self._sizes(self.ranks.rank, keys, values))

    def ring(self, key: Tensor, value: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Each rank's block [K, V] of the last set with the rank it belongs to, one's own first.

        The next one is under way while one is used.
        """
        block, owner = torch.cat([key, value], -1), self.ranks.rank
        for _ in range(self.ranks.count - 1):
            following = (owner - 1) % self.ranks.count
            arriving = self.ranks.pass_on(block, self._block(following, block))
            yield owner, block
            block, owner = arriving(), following
        yield owner, block

    def send_on(self, owner: int, grad: Tensor) -> Tensor:
        """The gradient of a block, handed on; what comes is that of the block before it."""
        return self.ranks.pass_on(grad, self._block((owner - 1) % self.ranks.count, grad), tag=1)()

    def _block(self, owner: int, like: Tensor) -> tuple[int, ...]:
        return like.shape[0], self.lengths[owner][-1], like.shape[2]

    def step(self, owner: int, block: Tensor, keys: list[Tensor], values: list[Tensor], d: int) -> _Step | None:
        """What this rank's queries meet of a block, beside the gathered sets; None for nothing."""
        key, value = block[..., :d], block[..., d:]
        none = [0] * (len(keys) + 1)
        if not self.is_causal:
            return _Step([*keys, key], [*values, value], [], False, 0, none, 0)
        if owner > self.ranks.rank:
            return None
        length = key.shape[1]
        before = self.ranks.rank * length
        keys, values = ([x[:, : before + length] for x in sets] for sets in (keys, values))
        if owner < self.ranks.rank:  # at positions 0, 1, ...: further back than they are, and seen all the same
            return _Step([*keys, key], [*values, value], [], True, before, none, 0)
        if not keys or before == 0:
            return _Step([*keys, key], [*values, value], [], True, 0, none, 0)
        key, value = (pad(x, (0, 0, before, 0)) for x in (key, value))
        seen = torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        own = seen.clone()
        own[:, :before] = False
        # A window as long as the block takes nothing from it, and spares most of the work on the hidden keys.
        return _Step(
            [*keys, key], [*values, value], [*[seen] * len(keys), own], True, before, [*none[1:], length], before
        )


def _unpack(row: Tensor, sizes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    counts = [math.prod(size) for size in sizes]
    parts = row[: sum(counts)].split(counts)
    return [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]


def merge(out: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two disjoint sets of tuples, from that over each.

    >>> nothing, empty = torch.zeros(1, 1, 2), torch.full((1, 1), -torch.inf)
    >>> merge(nothing, empty, torch.ones(1, 1, 2), torch.zeros(1, 1))
    (tensor([[[1., 1.]]]), tensor([[0.]]))
    """
    both = torch.logaddexp(lse, more_lse)
    base = both.masked_fill(both == -math.inf, 0.0)
    first, second = (torch.exp(x - base).unsqueeze(-1) for x in (lse, more_lse))
    return out * first + more * second, both


class _ShardedAttend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shards: _Shards, query: Tensor, *rest: Tensor) -> Tensor:
        sets = len(rest) // 2
        keys, values = rest[:sets], rest[sets:]
        dtype = query.dtype if query.dtype == torch.float64 else torch.float32
        wide = query.to(dtype).contiguous()
        out = wide.new_zeros(*wide.shape[:2], values[0].shape[2])
        lse = wide.new_full(wide.shape[:2], -math.inf)
        whole_keys, whole_values = shards.gathered(keys, values)
        for owner, block in shards.ring(keys[-1], values[-1]):
            step = shards.step(owner, block, whole_keys, whole_values, wide.shape[2])
            if step is not None:
                out, lse = merge(out, lse, *attend(wide, *step.arguments, shards.scale))
        ctx.shards = shards
        ctx.save_for_backward(query, *rest, out, lse)
        return out.to(query.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        shards: _Shards = ctx.shards
        query, *rest, out, lse = ctx.saved_tensors
        sets = len(rest) // 2
        keys, values = rest[:sets], rest[sets:]
        wide, d = query.to(out.dtype).contiguous(), query.shape[2]
        grad_query = torch.zeros_like(wide)
        whole_keys, whole_values = shards.gathered(keys, values)
        grad_whole = [torch.zeros_like(x, dtype=out.dtype) for x in (*whole_keys, *whole_values)]
        grad_block = torch.cat([torch.zeros_like(x[-1], dtype=out.dtype) for x in (keys, values)], -1)
        for owner, block in shards.ring(keys[-1], values[-1]):
            step = shards.step(owner, block, whole_keys, whole_values, d)
            if step is not None:
                found = attend_backward(
                    wide, *step.arguments, shards.scale, out, lse, grad.to(out.dtype), torch.zeros_like(lse)
                )
                grad_query += found[0]
                grad_keys, grad_values = found[1 : 1 + sets], found[1 + sets :]
                grad_block += torch.cat([grad_keys[-1], grad_values[-1]], -1)[:, step.hidden :]
                for into, part in zip(grad_whole, (*grad_keys[:-1], *grad_values[:-1]), strict=True):
                    into[:, : part.shape[1]] += part
            grad_block = shards.send_on(owner, grad_block)
        grads = shards.scattered(grad_whole, keys, values)
        key_grads = [*grads[: sets - 1], grad_block[..., :d]]
        value_grads = [*grads[sets - 1 :], grad_block[..., d:]]
        return None, *(x.to(query.dtype) for x in (grad_query, *key_grads, *value_grads))


_sharded_attend: Callable[..., Tensor] = _ShardedAttend.apply
