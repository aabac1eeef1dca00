r"""Exact attention to a sequence that is sharded over ranks: one key set is passed around a ring, the others are
gathered.

In attention of order k the keys of a tuple may be on k - 1 different ranks. All sets but the last are gathered on every
rank; a block of the last set is passed from rank to rank, so that each rank has seen every tuple after as many steps as
there are ranks. The results of the steps, (o_b, lse_b), are merged by

    lse = log sum_b exp(lse_b),    o = sum_b exp(lse_b - lse) o_b.

The backward pass sends the blocks around the ring again, with P = exp(S - lse): the gradient of a block is sent with
the block and returns to its rank after one more step; the gradients of the gathered sets are reduce-scattered.

The local computation of a rank between two collectives ends in a barrier (see `agreement`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from separatrix.attention.call import Call, check_call
from separatrix.attention.exact.operators import attend, attend_backward
from separatrix.attention.sharded.agreement import RankPass, Report, report_of
from separatrix.attention.sharded.collectives import Ranks, check_timeout, ranks_of
from separatrix.attention.sharded.shards import Ring, Shards
from separatrix.errors import ArgumentError


def sharded_exact_attention(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    scale: float | None = None,
    is_causal: bool = False,
    group: ProcessGroup | None = None,
    timeout: float | None = None,
) -> Tensor:
    """The rows of exact order-k attention over all ranks' tokens that belong to this rank's queries.

    Args:
        query: This rank's shard of the queries, (..., L_q, d). Lengths may differ between ranks, and be 0. The shards
            follow each other in the order of the ranks.
        keys: This rank's shard of each key set, (..., L_m, d); a bare tensor at order 2.
        values: This rank's shard of each value set, (..., L_m, d_v); a bare tensor at order 2.
        scale: None is the papers' 1/d; the same on every rank.
        is_causal: Whether a query attends only to tokens up to its own position in the whole sequence; all lengths must
            then be equal, on all ranks.
        group: The process group, None for the default one. Every rank of the group must make the call, and if tensors
            of any rank require gradients, every rank must run the backward pass: gradients are those of the sum of the
            ranks' losses.
        timeout: Seconds that a rank waits for the others, in every exchange of both passes, until it raises an
            `AbsentRankError` that names the absent ranks; None for the timeout of the group's store, which
            ``init_process_group(timeout=...)`` sets. If several ranks are absent, the error can take twice as long.

    Returns:
        The outputs of this rank's queries, (..., L_q, d_v).

    Raises:
        SeparatrixError: If any rank fails in either pass, or if only some of the ranks make a call or a backward pass.
            The error is raised on every rank and names the rank that failed; all ranks can continue with their next
            call.

    A rank stores k - 2 key and value sets of the whole sequence and two blocks of the last set. In causal attention
    rank r computes r + 1 blocks, so the last rank takes longest. From order 3 on, the block of rank r is padded with r
    blocks of masked keys, so that its keys have their positions in the sequence. The padding takes as much memory as
    another gathered set, and this block takes 1.3 to 1.7 times as long as an unmasked one.

    Example:
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> q, k1, k2, v1, v2 = torch.randn(5, 10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> out = sharded_exact_attention(q, [k1, k2], [v1, v2], is_causal=True)
        >>> from separatrix import tensor_attention
        >>> torch.allclose(out, tensor_attention(q, [k1, k2], [v1, v2], is_causal=True))
        True
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of(group, timeout)
    number = ranks.state.begin()
    forward = RankPass(ranks, number, backward=False)

    def prepare() -> tuple[Call, Report]:
        check_timeout(timeout)
        call = check_shard(ranks, check_call(query, keys, values, is_causal=is_causal, scale=scale))
        return call, report_of(call, "sharded_exact_attention", is_causal)

    call, reports = forward.agree(prepare)
    if is_causal and any(report.lengths != reports[0].lengths for report in reports):
        lengths = [report.lengths[0] for report in reports]
        raise ArgumentError("query", expected="the same length on every rank (is_causal)", got=f"lengths {lengths}")
    tensors = in_backward_pass(call) if any(report.wants_gradient for report in reports) else call.tensors
    shards = Shards(ranks, number, tuple(report.lengths[1:] for report in reports), call.scale, is_causal)
    return call.shaped(_sharded_attend(shards, forward, *tensors))


def in_backward_pass(call: Call) -> tuple[Tensor, ...]:
    """The tensors of a call, at least one of which requires a gradient: all ranks must take part in the backward
    pass."""
    if any(x.requires_grad for x in call.tensors):
        return call.tensors
    return (call.query.detach().requires_grad_(), *call.keys, *call.values)


def check_shard(ranks: Ranks, call: Call) -> Call:
    """Return the call; raise an error if the backend cannot send its tensors to other ranks."""
    for index, x in enumerate(call.tensors):
        ranks.check(call.name(index), x)
    return call


def merge(out: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Merge the outputs and log-sum-exps of attention over two disjoint sets of tuples.

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
    def forward(ctx: Any, shards: Shards, forward: RankPass, query: Tensor, *rest: Tensor) -> Tensor:
        sets = len(rest) // 2
        keys, values = rest[:sets], rest[sets:]
        dtype = query.dtype if query.dtype == torch.float64 else torch.float32
        whole = shards.gathered(forward, keys, values)

        def begin() -> tuple[Tensor, list[Tensor], tuple[list[Tensor], list[Tensor]], Ring]:
            wide = query.to(dtype).contiguous()
            out = wide.new_zeros(*wide.shape[:2], values[0].shape[2])
            lse = wide.new_full(wide.shape[:2], -math.inf)
            return wide, [out, lse], whole(), shards.ring(keys[-1], values[-1])

        wide, results, (whole_keys, whole_values), ring = forward.synchronize(begin)

        def visit(owner: int, block: Tensor, _: Tensor | None) -> None:
            step = shards.step(owner, block, whole_keys, whole_values, wide)
            if step is not None:
                results[:] = merge(*results, *attend(wide, *step.arguments, shards.scale))

        shards.around(forward, ring, visit)
        out, lse = results
        ctx.shards = shards
        ctx.save_for_backward(query, *rest, out, lse)
        return forward.synchronize(lambda: out.to(query.dtype))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        shards: Shards = ctx.shards
        query, *rest, out, lse = ctx.saved_tensors
        sets = len(rest) // 2
        keys, values = rest[:sets], rest[sets:]
        d = query.shape[2]
        backward = RankPass(shards.ranks, shards.number, backward=True)
        whole = shards.gathered(backward, keys, values)

        def begin() -> tuple[Tensor, Tensor, list[Tensor], list[Tensor], list[Tensor], Ring]:
            wide = query.to(out.dtype).contiguous()
            whole_keys, whole_values = whole()
            grad_whole = [torch.zeros_like(x, dtype=out.dtype) for x in (*whole_keys, *whole_values)]
            ring = shards.ring(keys[-1], values[-1], grads=out.dtype)
            return wide, torch.zeros_like(wide), whole_keys, whole_values, grad_whole, ring

        wide, grad_query, whole_keys, whole_values, grad_whole, ring = backward.synchronize(begin)

        def visit(owner: int, block: Tensor, grad_block: Tensor | None) -> None:
            step = shards.step(owner, block, whole_keys, whole_values, wide)
            if step is None:
                return
            gradients = attend_backward(
                wide, *step.arguments, shards.scale, out, lse, grad.to(out.dtype), torch.zeros_like(lse)
            )
            grad_query.add_(gradients[0])
            grad_keys, grad_values = gradients[1 : 1 + sets], gradients[1 + sets :]
            assert grad_block is not None
            grad_block += torch.cat([grad_keys[-1], grad_values[-1]], -1)[:, step.hidden :]
            for into, part in zip(grad_whole, (*grad_keys[:-1], *grad_values[:-1]), strict=True):
                into[:, : part.shape[1]] += part

        grad_block = shards.around(backward, ring, visit)
        assert grad_block is not None
        grads = shards.scattered(backward, grad_whole, keys, values)
        key_grads = [*grads[: sets - 1], grad_block[..., :d]]
        value_grads = [*grads[sets - 1 :], grad_block[..., d:]]
        narrow = backward.synchronize(lambda: [x.to(query.dtype) for x in (grad_query, *key_grads, *value_grads)])
        return None, None, *narrow


_sharded_attend: Callable[..., Tensor] = _ShardedAttend.apply
