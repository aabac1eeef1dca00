r"""Near-linear attention to a sequence that is sharded over many ranks; the size of the messages does not depend on the
length.

The states Z_m = Phi(K_m)^T [V_m, 1] of the polynomial method (see `near_linear.sums`) are sums over tokens, hence sums
over ranks of the sums over their shards. After one all-reduce of these k - 1 states every rank has the sums over all
tokens; their Hadamard product is computed after the sum. With L the sum of the ranks' losses,

    Z_m = sum_r Z_m^(r)    and    dL/dZ_m^(r) = sum_s (dL/dZ_m as rank s finds it),

so the backward pass is one all-reduce too. Causal attention needs the states of the earlier ranks, an exclusive scan,
and its gradient is the reversed scan.

The local computation of a rank before and after each collective ends in a barrier (see `agreement`). So the autograd
graph of a call is stored in two parts, from the tokens to the rank's own states and from the sum of all states to the
output, and `_Sharded.backward` differentiates both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from separatrix.attention.call import Call, check_call
from separatrix.attention.near_linear.backend import backend_of, summing
from separatrix.attention.near_linear.bounded_plan import BoundedPlan, expansion
from separatrix.attention.near_linear.sums import Expansion, against_monomials, contraction
from separatrix.attention.sharded.agreement import RankPass, Report, report_of
from separatrix.attention.sharded.collectives import Ranks, check_timeout, ranks_of
from separatrix.attention.sharded.exact import check_shard, in_backward_pass
from separatrix.attention.streaming.ledger import StreamLedger, relative_rounding
from separatrix.attention.streaming.operations import attend_after
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.errors import SeparatrixError


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
    timeout: float | None = None,
) -> Tensor:
    """The rows of order-k attention over all ranks' tokens that belong to this rank's queries.

    Args:
        query: This rank's shard of the queries, (..., L_q, d). Lengths may differ between ranks, and be 0. The shards
            follow each other in the order of the ranks.
        keys: This rank's shard of each key set, (..., L_m, d); a bare tensor at order 2.
        values: This rank's shard of each value set, (..., L_m, d_v); a bare tensor at order 2.
        bound: As for `TensorAttentionState`, and the same on every rank. **A token that exceeds the bound on any rank
            raises the same error on every rank.**
        tolerance: As for `TensorAttentionState`, and the same on every rank.
        norm: As for `TensorAttentionState`, and the same on every rank.
        scale: As for `TensorAttentionState`, and the same on every rank.
        is_causal: Whether a query attends only to tokens up to its own position in the whole sequence; all sets of a
            shard must then have the same length.
        group: As for `sharded_exact_attention`.
        timeout: As for `sharded_exact_attention`.

    Returns:
        The outputs of this rank's queries, (..., L_q, d_v).

    Raises:
        SeparatrixError: As for `sharded_exact_attention`.

    The forward and the backward pass each exchange the k - 1 states of every head once, in float64, with (number of
    monomials) (d_v + 1) numbers each: by an all-reduce or, for causal attention, by an all-gather, during which each
    rank stores the states of all ranks. See `counted_communication`.

    Example:
        >>> import torch.distributed as dist
        >>> from separatrix.attention.sharded import counted_communication
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> q, k1, k2, v1, v2 = 2 * torch.rand(5, 100, 4, generator=torch.Generator().manual_seed(0)) - 1
        >>> with counted_communication() as sent:
        ...     out = sharded_attention(q, [k1, k2], [v1, v2], bound=1.0, tolerance=1e-3)
        >>> sent.calls["all_reduce"], sent.bytes["all_reduce"]
        (1, 5600)
        >>> from separatrix import tensor_attention
        >>> bool((out - tensor_attention(q, [k1, k2], [v1, v2])).abs().max() < 1e-3)
        True
        >>> dist.destroy_process_group()
    """
    ranks = ranks_of(group, timeout)
    number = ranks.state.begin()
    forward = RankPass(ranks, number, backward=False)

    def prepare() -> tuple[tuple[Call, _Shard, BoundedPlan], Report]:
        check_timeout(timeout)
        call = check_shard(ranks, check_call(query, keys, values, is_causal=is_causal, scale=scale))
        q, ks, vs = call.query, call.keys, call.values
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
        leaves = [x.detach().requires_grad_(x.requires_grad) for x in (q, *ks, *vs)]
        local.refuse_beyond_bound("query", q)
        local.append(leaves[1 : call.order], leaves[call.order :])
        expanded = expansion(local.plan, q.shape[0], local.scale, q.device, local.bound)
        shard = _Shard(ranks, number, expanded, local.scale, is_causal, leaves, torch.stack(local.states))
        report = report_of(
            call,
            "sharded_attention",
            is_causal,
            bound=local.bound,
            tolerance=local.tolerance,
            norm=norm,
            **{"the degree of the plan": local.plan.degree, "the rank of the plan": local.plan.rank},
        )
        roundings = list(local.roundings)
        if is_causal:  # this counts the addition of a shard's states to those of earlier ranks
            adds = summing(backend_of(call), call, local.plan.rank, torch.float64)
            scan = [adds.tokens([length]) for length in call.key_lengths]
            roundings = [a + b.count() + b.count(wide=True) for a, b in zip(roundings, scan, strict=True)]
        return (call, shard, local.plan), replace(report, largest=local.largest, roundings=tuple(roundings))

    (call, shard, plan), reports = forward.agree(prepare)
    _check_roundings(plan, reports)
    if call.query.shape[0] == 0:
        return call.shaped(call.query.new_zeros(0, call.query.shape[1], call.values[0].shape[2]))
    if not any(report.wants_gradient for report in reports):
        out = shard.attend(forward)
    else:
        out = _sharded(shard, forward, *in_backward_pass(call))
    return call.shaped(out)


def _check_roundings(plan: BoundedPlan, reports: Sequence[Report]) -> None:
    """Raise the same error on every rank if the rounding of the sums over ranks makes the error bound exceed the
    tolerance."""
    tokens = [sum(lengths) for lengths in zip(*(report.lengths[1:] for report in reports), strict=True)]
    largest = [max(x) for x in zip(*(report.largest for report in reports), strict=True)]
    # The sum of the states over all ranks rounds each state at most once per rank.
    roundings = [max(x) + len(reports) for x in zip(*(report.roundings for report in reports), strict=True)]
    error = plan.total_error(relative_rounding(plan, StreamLedger(tokens, largest, roundings)))
    if error > plan.tolerance:
        raise SeparatrixError(
            f"tolerance: for {tokens} tokens on {len(reports)} ranks the error bound {error:.3g} exceeds the tolerance"
            f" {plan.tolerance:.3g} (relative to the values' magnitude). Use a lower bound or a larger tolerance, or "
            "multiply the values by a power of two if they are far from 1."
        )


@dataclass(frozen=True)
class _Shard:
    """The saved tensors of call `number`: this rank's tokens as leaves, query first, and its stacked states."""

    ranks: Ranks
    number: int
    expanded: Expansion
    scale: float
    is_causal: bool
    leaves: list[Tensor]
    stacked: Tensor

    def reduced(self, passing: RankPass, make: Callable[[], Tensor], ranks: slice) -> Tensor:
        """The sum over all ranks of the results of `make`; in causal attention, over `ranks` only."""

        def begin() -> tuple[Tensor, Tensor]:
            mine = make().detach().clone(memory_format=torch.contiguous_format)
            return mine, mine.new_empty(self.ranks.count, *mine.shape) if self.is_causal else mine

        mine, gathered = passing.synchronize(begin)
        if not self.is_causal:
            self.ranks.sum(mine)
            return mine
        self.ranks.gather(mine, gathered)
        return passing.synchronize(lambda: gathered[ranks].sum(0))

    def attend(self, forward: RankPass, kept: list[Tensor] | None = None) -> Tensor:
        """The outputs of this rank's queries. The summed states and the output, with their graph, are written to
        `kept`."""
        states = self.reduced(forward, lambda: self.stacked, slice(self.ranks.rank))

        def work() -> Tensor:
            query, *rest = self.leaves
            with torch.set_grad_enabled(kept is not None):
                Z = list(states.requires_grad_(kept is not None))
                if self.is_causal:
                    out = attend_after(self.expanded, self.scale, (), query, *rest, *Z)
                else:
                    out = _attend(query, Z, self.expanded)
            if kept is not None:
                kept[:] = states, out
            return out.detach()

        return forward.synchronize(work)


class _Sharded(torch.autograd.Function):
    """Sharded attention as an autograd function of the shard's tensors."""

    @staticmethod
    def forward(ctx: Any, shard: _Shard, forward: RankPass, *tensors: Tensor) -> Tensor:
        ctx.shard, ctx.kept = shard, []
        return shard.attend(forward, ctx.kept)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        shard: _Shard = ctx.shard
        states, out = ctx.kept
        backward = RankPass(shard.ranks, shard.number, backward=True)
        wanted = [x for x in shard.leaves if x.requires_grad]
        direct: list[Tensor] = []

        def begin() -> Tensor:
            *direct_gradients, of_states = _gradients(out, [*wanted, states], grad)
            direct[:] = direct_gradients
            return of_states

        # The states of a rank enter the outputs of all ranks; in causal attention, of the later ranks.
        slope = shard.reduced(backward, begin, slice(shard.ranks.rank + 1, None))

        def end() -> list[Tensor]:
            if not shard.stacked.requires_grad:
                return direct
            through = _gradients(shard.stacked, wanted, slope)
            return [gradient + other for gradient, other in zip(direct, through, strict=True)]

        gradients = iter(backward.synchronize(end))
        return None, None, *(next(gradients) if x.requires_grad else None for x in shard.leaves)


def _gradients(out: Tensor, wanted: Sequence[Tensor], grad: Tensor) -> list[Tensor]:
    """The gradients of the tensors `wanted`, 0 where `out` does not depend on them; the graph is retained."""
    gradients = torch.autograd.grad(out, wanted, grad, retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(x) if gradient is None else gradient for x, gradient in zip(wanted, gradients, strict=True)
    ]


def _attend(query: Tensor, Z: list[Tensor], expanded: Expansion) -> Tensor:
    """The outputs (H, L_q, d_v) of queries (H, L_q, d) with the states; 0 where there are no keys."""
    met = contraction(Z, expanded)[..., :-1]
    heads, length, _ = query.shape
    if length == 0:
        return met[:, :0, :-1].to(query.dtype)  # zeros that remain part of the graph
    x = expanded.frame.coordinates(query.to(torch.float64), 0)
    sums = against_monomials(x, met, expanded.index_set, expanded.even_chunk(heads, length))
    D = sums[:, -1:]
    return (sums[:, :-1] / D.masked_fill(D == 0, torch.inf)).mT.to(query.dtype)


_sharded: Callable[..., Tensor] = _Sharded.apply
