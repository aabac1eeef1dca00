r"""Near-linear attention to a sequence that lies in shards on many ranks: what they exchange does not grow with it.

The states Z_m = Phi(K_m)^T [V_m, 1] of the polynomial method (see `polynomial`) are sums over tokens, hence sums over
ranks of the sums over their shards. One all-reduce of the k - 1 of them gives every rank what all tokens are to its
queries; their Hadamard product is taken after the sum. With L the sum of the ranks' losses,

    Z_m = sum_r Z_m^(r)    and    dL/dZ_m^(r) = sum_s (dL/dZ_m as rank s finds it),

so the backward pass is one all-reduce too. Causal attention needs the states of the shards before one's own, an
exclusive scan, and its gradient is the scan from the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from separatrix.attention import causal
from separatrix.attention.arguments import check_call
from separatrix.attention.bounded import expansion
from separatrix.attention.collectives import Ranks, Report, agree, counted_communication, ranks_of
from separatrix.attention.exact import Flat, flatten_heads
from separatrix.attention.frame import Tokens
from separatrix.attention.parallel_exact import sharded_exact_attention
from separatrix.attention.polynomial import Expansion, Sums, contraction
from separatrix.attention.products import against_monomials
from separatrix.attention.second_derivatives import only_first_derivatives
from separatrix.attention.state import TensorAttentionState

__all__ = ["counted_communication", "sharded_attention", "sharded_exact_attention"]


def sharded_attention(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    bound: float,
    tolerance: float,
    norm: str = "entries",
    scale: float | None = None,
    is_causal: bool = False,
    group: ProcessGroup | None = None,
) -> Tensor:
    """The rows of order-k attention over all ranks' tokens that belong to this rank's queries.

    query, keys, values: this rank's shard, (..., L_q, d), (..., L_m, d) and (..., L_m, d_v); a bare tensor at order 2.
        Lengths may differ between ranks, and be 0. The shards follow each other in the order of the ranks.
    bound, tolerance, norm, scale: as for `TensorAttentionState`, and the same on every rank. **A token beyond the
        bound, on any rank, is refused on every rank**, with the same words.
    is_causal: a query attends the tokens of earlier ranks, and of its own shard those up to its own position; all
        lengths of a shard must then be equal.
    group: the process group, None for the default one. Every rank of it must call, and where any rank's tensors want
        gradients, every rank must run the backward pass: gradients are those of the sum of the ranks' losses.

    Forward and backward exchange the k - 1 states of each head once, in float64, rank (d_v + 1) numbers each: by an
    all-reduce, or when causal by an all-gather, for which a rank holds the states of all ranks for a moment. See
    `counted_communication`.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> q, k1, k2, v1, v2 = 2 * torch.rand(5, 100, 4, generator=torch.Generator().manual_seed(0)) - 1
    >>> with counted_communication() as sent:
    ...     out = sharded_attention(q, [k1, k2], [v1, v2], bound=1.0, tolerance=1e-3)
    >>> sent.calls["all_reduce"], sent.bytes["all_reduce"]
    (1, 10080)
    >>> from separatrix import tensor_attention
    >>> bool((out - tensor_attention(q, [k1, k2], [v1, v2])).abs().max() < 1e-3)
    True
    >>> dist.destroy_process_group()
    """
    ranks = ranks_of(group)

    def prepare() -> tuple[tuple[Flat, TensorAttentionState], Report]:
        call = check_call(query, keys, values, is_causal=is_causal, scale=scale)
        flat = flatten_heads(call)
        batch, q, ks, vs, _ = flat
        local = TensorAttentionState(
            call.order,
            q.shape[2],
            vs[0].shape[2],
            bound=bound,
            tolerance=tolerance,
            scale=call.scale,
            norm=norm,
            batch_shape=q.shape[:1],
            dtype=q.dtype,
            device=q.device,
        )
        local.refuse_beyond_bound("query", q)
        local.append(ks, vs)
        configuration = {
            "function": "sharded_attention",
            "order": call.order,
            "head_dim": local.head_dim,
            "value_dim": local.value_dim,
            "batch_shape": batch,
            "dtype": str(local.dtype),
            "bound": local.bound,
            "tolerance": local.tolerance,
            "norm": norm,
            "scale": local.scale,
            "is_causal": is_causal,
            "torch.is_grad_enabled()": torch.is_grad_enabled(),
        }
        wants = torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors)
        return (flat, local), Report(configuration, (q.shape[1], *(key.shape[1] for key in ks)), wants)

    ((batch, q, ks, vs, _), local), reports = agree(ranks, prepare)
    if q.shape[0] == 0:
        return query.new_zeros(*batch, q.shape[1], local.value_dim)
    stacked = torch.stack(local.states)
    if any(report.wants_gradient for report in reports) and not stacked.requires_grad:
        stacked.requires_grad_()  # the backward pass of the other ranks waits for this one
    expanded = expansion(local.plan, q.shape[0], local.scale, q.device, local.bound)
    if is_causal:
        out = _attend_after(expanded, local.scale, len(ks), q, *ks, *vs, *_before(stacked, ranks))
    else:
        out = _attend(q, list(_sum(stacked, ranks)), expanded)
    return out.reshape(*batch, *out.shape[1:])


def _attend(query: Tensor, Z: list[Tensor], expanded: Expansion) -> Tensor:
    """The outputs (H, L_q, d_v) of queries (H, L_q, d) against the states; 0 where there is nothing to attend."""
    met = contraction(Z, expanded)[..., :-1]
    heads, length, _ = query.shape
    if length == 0:
        return met[:, :0, :-1].to(query.dtype)  # a part of the graph all the same
    x = expanded.frame.coordinates(query.to(torch.float64), 0)
    sums = against_monomials(x, met, expanded.index_set, expanded.even_chunk(heads, length))
    D = sums[:, -1:]
    return (sums[:, :-1] / D.masked_fill(D == 0, torch.inf)).mT.to(query.dtype)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stacked: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.sum(stacked)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return ctx.ranks.sum(grad), None


class _Before(torch.autograd.Function):
    """The sum over earlier ranks; what a rank adds, later ranks see, so its gradient is the sum over theirs."""

    @staticmethod
    def forward(ctx: Any, stacked: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.gather(stacked)[: ranks.rank].sum(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return ctx.ranks.gather(grad)[ctx.ranks.rank + 1 :].sum(0), None


class _AttendAfter(torch.autograd.Function):
    """Causal attention of a shard after the states of all shards before it: query, keys, values, states."""

    @staticmethod
    def forward(ctx: Any, expanded: Expansion, scale: float, sets: int, query: Tensor, *rest: Tensor) -> Tensor:
        ctx.expanded, ctx.scale, ctx.sets = expanded, scale, sets
        tokens = Tokens(query, rest[:sets], rest[sets : 2 * sets], (), scale)
        sums = causal.attend_causal(tokens, expanded, 0, rest[2 * sets :])
        ctx.save_for_backward(query, *rest, sums.output, sums.denominator)
        return sums.output

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        query, *rest, out, denominator = ctx.saved_tensors
        sets: int = ctx.sets
        tokens = Tokens(query, tuple(rest[:sets]), tuple(rest[sets : 2 * sets]), (), ctx.scale)
        sums = Sums(out, denominator, torch.zeros_like(denominator))
        grads = causal.backward_causal_after(
            tokens, ctx.expanded, sums, 0, rest[2 * sets :], grad_out, torch.zeros_like(denominator)
        )
        return None, None, None, grads[0], *grads[1], *grads[2], *grads[3]


_sum: Callable[[Tensor, Ranks], Tensor] = _Sum.apply
_before: Callable[[Tensor, Ranks], Tensor] = _Before.apply
_attend_after: Callable[..., Tensor] = _AttendAfter.apply
