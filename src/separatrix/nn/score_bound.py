"""The bound on the scores of a layer: normalised queries and keys, a learned temperature, and near-linear attention.

Each head's queries and keys are divided by their l_k norms, k the order (see `normalised`). By Hoelder's inequality no
score exceeds 1 then, and bound * sigmoid(temperature), the factor of the scores, is below the bound.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.attention.bounds import value_range
from separatrix.attention.call import Call
from separatrix.attention.near_linear.bounded_plan import (
    BoundedPlan,
    normalised,
    plan_bounded,
    score_radius,
    sum_rounding,
)
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.checks import positive


class ScoreBound:
    """A bound on the scores of a layer, and the plan for its tolerance, if it has one.

    Args:
        order: The order of the layer.
        head_dim: The dimension of queries and keys.
        bound: The number that no score can exceed.
        tolerance: The error of near-linear attention, relative to the magnitudes of the values; None for exact
            attention.
    """

    def __init__(self, order: int, head_dim: int, bound: float, tolerance: float | None) -> None:
        self.order, self.head_dim, self.bound = order, head_dim, positive("bound", bound)
        self.tolerance = None if tolerance is None else positive("tolerance", tolerance)
        self._plans: dict[torch.dtype, BoundedPlan] = {}

    def plan(self, dtype: torch.dtype) -> BoundedPlan | None:
        """The polynomial whose error is within the tolerance in a dtype; None for exact attention.

        Raises:
            SeparatrixError: The tolerance is too small for the dtype, or no polynomial satisfies it.
        """
        if self.tolerance is None:
            return None
        if dtype not in self._plans:  # plans are stored because compilers that trace a call cannot compute them
            radius = score_radius(self.order, self.head_dim, 1.0, self.bound, "order", dtype)
            self._plans[dtype] = plan_bounded(self.order, self.head_dim, radius, self.tolerance, dtype)
        return self._plans[dtype]

    def apply(
        self, q: Tensor, keys: list[Tensor], values: list[Tensor], temperature: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Queries times sigmoid(temperature) and keys, normalised, and values, all in the dtype of the temperature.

        Under autocast the projections have a lower precision than the plan assumes.

        Args:
            q: The queries (..., heads, L, head_dim).
            keys: The keys of each set.
            values: The values of each set.
            temperature: The learned parameter (heads,).
        """
        dtype = temperature.dtype
        factor = torch.sigmoid(temperature).unsqueeze(-1).unsqueeze(-1)
        q = normalised(q.to(dtype), self.order) * factor
        return q, [normalised(k.to(dtype), self.order) for k in keys], [v.to(dtype) for v in values]

    def state_arguments(self) -> dict[str, object]:
        """The arguments of the `TensorAttentionState` that is the cache of a layer with a tolerance."""
        sizes = {"head_dim": self.head_dim, "order": self.order, "value_dim": self.head_dim}
        return {**sizes, "norm": "order", "bound": 1.0, "scale": self.bound, "tolerance": self.tolerance}


def call_certificate(plan: BoundedPlan, call: Call) -> Certificate:
    """The certificate of a call with a plan, from the magnitudes of its values and the number of its tokens."""
    magnitudes = value_range(call.values, call.masks)
    roundings = sum_rounding(plan, call) if magnitudes.in_range(torch.float64) else math.inf
    return plan.certificate(roundings, call.shaped(magnitudes.largest.expand(call.query.shape[:2])))
