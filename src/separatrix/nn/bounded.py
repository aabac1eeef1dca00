"""Multi-head attention of any order whose scores cannot exceed a bound, exact or near-linear in the length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from separatrix.attention.call import Call, check_call
from separatrix.attention.certificate.output import Certificate, value_range
from separatrix.attention.planning.plan import check_tolerance
from separatrix.attention.streaming.bounded_attention import bounded_attention
from separatrix.attention.streaming.bounded_plan import (
    BoundedPlan,
    normalised,
    plan_bounded,
    score_radius,
    sum_rounding,
)
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.checks import positive
from separatrix.errors import ArgumentError
from separatrix.nn.decoding import Cache
from separatrix.nn.tensor_attention import TensorAttention
from separatrix.nn.tensor_parallel import local_part


class BoundedTensorAttention(TensorAttention):
    """A layer whose scores cannot exceed `bound`; `TensorAttention` makes it where a bound is given.

    Each head's queries and keys are divided by their l_k norms, k the order (see `normalised`), and the scores are
    multiplied by a learned temperature below `bound`, bound * sigmoid(``temperature``), half of it at the start. So
    `scale` must be None.

    Without a `tolerance` attention is exact. **With a tolerance it is near-linear in the length**, in training, in
    inference and token by token, and every entry of a head's output, before ``out_proj``, is within `tolerance` of
    exact attention's, relative to the product of the largest magnitudes of the value sets, whatever the data. Exact
    attention is that of the very queries, normalised and times their temperature, keys and values that the layer has
    computed in its type. The rounding of the output to that type is part of the tolerance: **a tolerance that the
    layer's type cannot keep is refused**, by the constructor, or when the layer is cast, which plans anew. Beside the
    tolerance stands the smallest positive number of the type, which matters to float16 alone: see `certificate`.

    Of few tokens exact attention takes less time, and is what a call then computes, if that errs by no more than the
    certificate says. Which of the two it is depends on the shapes alone, and ``layer.plan.crossover(heads)`` says from
    which length on it is near-linear; with ``method="polynomial"``, and in `decode`, it is near-linear always.

    Example:
        >>> layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
        >>> type(layer).__name__, layer.plan.rank
        ('BoundedTensorAttention', 126)
    """

    bound: float
    temperature: nn.Parameter

    def __init__(self, embed_dim: int, num_heads: int, *arguments: Any, bound: float, **options: Any) -> None:
        self._plans: dict[torch.dtype, BoundedPlan] = {}
        super().__init__(embed_dim, num_heads, *arguments, bound=bound, **options)

    def _check_bounds(self) -> None:
        self.bound = positive("bound", self.bound)
        if self.scale is not None:
            raise ArgumentError("scale", expected="None for a layer with a bound, which learns it", got=self.scale)
        if self.rotary is not None:
            reason = "None for a layer with a bound: turning a vector changes the norm that keeps the bound"
            raise ArgumentError("rotary", expected=reason, got=self.rotary)
        where = self.out_proj.weight
        if self.tolerance is not None:
            self.tolerance = check_tolerance(self.tolerance)
            if self.windows is not None:
                raise ArgumentError("windows", expected="None for a layer with a tolerance", got=self.windows)
            self._plan(where.dtype)
        self.temperature = nn.Parameter(where.new_empty(self.num_heads))

    @property
    def _factor(self) -> float:
        return self.bound

    @property
    def plan(self) -> BoundedPlan | None:
        """The polynomial that keeps the tolerance in the type the layer has now; None if it computes exactly."""
        return None if self.tolerance is None else self._plan(self.temperature.dtype)

    def _plan(self, dtype: torch.dtype) -> BoundedPlan:
        """The plan for a type; kept, so that a compiler that traces a call finds it made."""
        if dtype not in self._plans:
            assert self.tolerance is not None
            radius = score_radius(self.order, self.head_dim, 1.0, self.bound, "order", dtype)
            self._plans[dtype] = plan_bounded(self.order, self.head_dim, radius, self.tolerance, dtype)
        return self._plans[dtype]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Cast or move the layer; a type that cannot keep the tolerance is refused here, and by every call."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _ = self.plan
        return self

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The queries, keys and values of the heads; queries and keys normalised, and queries times a temperature."""
        q, keys, values = super().project(query, key, value)
        dtype = self.temperature.dtype  # under autocast the projections have fewer digits than were planned for
        temperature = torch.sigmoid(local_part(self.temperature, self.q_proj)).unsqueeze(-1).unsqueeze(-1)
        q = normalised(q.to(dtype), self.order) * temperature
        return q, [normalised(k.to(dtype), self.order) for k in keys], [v.to(dtype) for v in values]

    def _attend(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor] | None,
        is_causal: bool,
        query_offset: int,
    ) -> Tensor:
        plan = self.plan
        if plan is not None:
            call = self._call(q, keys, values, masks, is_causal, query_offset)
            return bounded_attention(plan, call, may_be_exact=self.method != "polynomial")
        return super()._attend(q, keys, values, masks, is_causal, query_offset)

    def _call(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor] | None,
        is_causal: bool,
        query_offset: int,
    ) -> Call:
        return check_call(
            q,
            keys,
            values,
            is_causal=is_causal,
            query_offset=query_offset,
            key_masks=masks,
            scale=self.bound,
            enable_gqa=self.num_kv_heads < self.num_heads,
        )

    def certificate(
        self,
        query: Tensor | None = None,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
    ) -> Certificate:
        """A bound on the error of the heads' outputs, before ``out_proj``, in a call with the same arguments.

        It is for a layer with a bound and a tolerance, and speaks of the difference to the exact attention of the
        queries, keys and values that the layer computes.

        Args:
            query: As in a call. Nothing is attended; the values are computed, because the certificate is proportional
                to their magnitudes. Without a query it is the certificate for values of magnitude 1, whatever the
                length.
            key: As in a call; so are the other arguments.
            value: As in a call.
            key_padding_mask: As in a call.
            is_causal: As in a call.
            query_offset: As in a call.

        Returns:
            The certificate, whose `per_query` is (batch, num_heads, L), without the batch if the query has none, and
            a single number if there is no query.

        Raises:
            ArgumentError: The layer has no bound or no tolerance, or a call with these arguments would be refused.

        Example:
            >>> layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
            >>> layer.certificate().total < 1e-3
            True
            >>> layer.certificate(torch.zeros(4, 5, 8)).per_query.shape
            torch.Size([4, 2, 5])
        """
        plan = self.plan
        if plan is None:
            raise self._without_tolerance("certificate")
        if query is None:
            for name, given in (("key", key), ("value", value), ("key_padding_mask", key_padding_mask)):
                if given is not None:
                    raise ArgumentError(name, expected="None without a query", got=type(given).__name__)
            return plan.certificate(plan.roundings, torch.ones((), dtype=torch.float64))
        with torch.no_grad():
            inputs = self.inputs(query, key, value, key_padding_mask, is_causal, query_offset)
            call = self._call(*inputs, is_causal, query_offset)
            found = value_range(call)
            roundings = sum_rounding(plan, call) if found.in_range(torch.float64) else math.inf
            magnitude = found.largest.expand(call.query.shape[:2])
            return plan.certificate(roundings, call.shaped(magnitude))

    def cache(self, batch_size: int | None = None, *, spare: int = 0) -> Cache:
        """An empty cache for `decode`: see `TensorAttention.cache`. With a tolerance it is a `TensorAttentionState`."""
        if self.tolerance is None:
            return super().cache(batch_size, spare=spare)
        self._check_batch_size(batch_size)
        if spare != 0:
            raise ArgumentError("spare", expected="0 for a layer with a tolerance: its sums hold no tokens", got=spare)
        return TensorAttentionState(
            self.order,
            self.head_dim,
            self.head_dim,
            bound=1.0,
            tolerance=self.tolerance,
            scale=self.bound,
            norm="order",
            batch_shape=self._cache_shape(batch_size),
            dtype=self.temperature.dtype,
            device=self.temperature.device,
        )

    def _kind_of_cache(self) -> dict[str, object]:
        if self.tolerance is None:
            return super()._kind_of_cache()
        found: dict[str, object] = {"type": "TensorAttentionState", "head_dim": self.head_dim, "order": self.order}
        found |= {"norm": "order", "bound": 1.0, "scale": self.bound, "tolerance": self.tolerance}
        return found | {"dtype": self.temperature.dtype, "device": self.temperature.device}
