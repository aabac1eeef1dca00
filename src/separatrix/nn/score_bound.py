"""The bound on the scores of a layer: normalised queries and keys, a learned temperature, and near-linear attention.

Each head's queries and keys are divided by their l_k norms, k the order (see `normalised`). By Hoelder's inequality no
score of the product form exceeds 1 then, and bound * sigmoid(temperature), the factor of the scores, is below the
bound.

Other score forms are the product form of mapped vectors (see `separatrix.forms`), which have D coordinates: copies of
the coordinates of the vector, and ones. Let x be scaled such that the mean of |x_l|^k over its d coordinates is 1, and
the factors of a bias such that the mean of their k-th powers is below 1. Then the mean over the D coordinates of the
mapped vector is at most 1, so that the mapped vector divided by D^(1/k) has an l_k norm of at most 1: no mean of the D
products exceeds 1. The factors g of a bias of rank r are divided by (mean |g_l|^k + 1 / r)^(1/k), so that small factors
stay small. The scores of a layer with a bound are

    bound * sigmoid(temperature) * form(q, k_1, ...) / D,

D = d for the product form, d k (k - 1) / 2 for the pairwise form, d (k - 1)! for the determinant, plus r for a bias of
rank r. (docs/derivations/bounded-attention.md has the proof.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.attention.bounds import value_range
from separatrix.attention.call import Call
from separatrix.attention.forms.maps import MAPS, key_bias
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

    `rank` is the rank of the bias of key sets, 0 for none. The tolerance is relative to the magnitudes of the values;
    None for exact attention.
    """

    form, rank = "product", 0  # missing in layers that earlier versions pickled

    def __init__(
        self,
        order: int,
        head_dim: int,
        bound: float,
        tolerance: float | None,
        form: str = "product",
        rank: int = 0,
    ) -> None:
        self.order, self.head_dim, self.bound = order, head_dim, positive("bound", bound)
        self.form, self.rank = form, rank
        self.tolerance = None if tolerance is None else positive("tolerance", tolerance)
        self._plans: dict[torch.dtype, BoundedPlan] = {}

    @property
    def factor_dim(self) -> int:
        """The dimension D of the mapped queries and keys."""
        copies = {"product": 1, "pairwise": math.comb(self.order, 2), "determinant": math.factorial(self.order - 1)}
        return self.head_dim * copies[self.form] + self.rank

    def plan(self, dtype: torch.dtype) -> BoundedPlan | None:
        """The polynomial whose error is within the tolerance in a dtype; None for exact attention.

        Raises:
            SeparatrixError: The tolerance is too small for the dtype, or no polynomial satisfies it.
        """
        if self.tolerance is None:
            return None
        if dtype not in self._plans:  # plans are stored because compilers that trace a call cannot compute them
            radius = score_radius(self.order, self.factor_dim, 1.0, self.bound, "order", dtype)
            self._plans[dtype] = plan_bounded(self.order, self.factor_dim, radius, self.tolerance, dtype)
        return self._plans[dtype]

    def apply(
        self, q: Tensor, keys: list[Tensor], bias: list[Tensor], values: list[Tensor], temperature: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Mapped queries times sigmoid(temperature) and mapped keys, (..., L, D), and values, in the dtype of the
        temperature.

        Under autocast the projections have a lower precision than the plan assumes.

        `bias` has the factors of the bias of each set, (..., L, rank), and is empty without a bias.
        """
        dtype = temperature.dtype
        factor = torch.sigmoid(temperature).unsqueeze(-1).unsqueeze(-1)
        if self.form == "product" and not bias:
            q, *keys = (normalised(x.to(dtype), self.order) for x in (q, *keys))
        else:
            q, keys = self._mapped(q, keys, bias, dtype)
        return q * factor, keys, [v.to(dtype) for v in values]

    def _mapped(
        self, q: Tensor, keys: list[Tensor], bias: list[Tensor], dtype: torch.dtype
    ) -> tuple[Tensor, list[Tensor]]:
        """The mapped vectors, whose l_k norms exceed 1 by no more than those of `normalised` at dimension D.

        The factors d^(1/k) and D^(-1/k) add roundings of at most 16 u, so the vectors are shrunk by this amount.
        """
        wide = torch.promote_types(dtype, torch.float32)

        def unit_mean(x: Tensor) -> Tensor:
            size: float = x.shape[-1] ** (1 / self.order)
            return normalised(x.to(wide), self.order) * size

        def below_unit_mean(x: Tensor) -> Tensor:
            size: float = x.shape[-1] ** (1 / self.order)
            extended = torch.cat([x.to(wide), torch.ones_like(x[..., :1], dtype=wide)], -1)
            return normalised(extended, self.order)[..., :-1] * size

        q, keys = MAPS[self.form](unit_mean(q), [unit_mean(key) for key in keys])
        if bias:
            q, keys = key_bias(q, keys, [below_unit_mean(factors) for factors in bias], scale=1.0)
        size: float = self.factor_dim ** (-1 / self.order) * (1 - 8 * torch.finfo(wide).eps)
        q, *keys = ((x * size).to(dtype) for x in (q, *keys))
        return q, keys

    def state_arguments(self) -> dict[str, object]:
        """The arguments of the `TensorAttentionState` that is the cache of a layer with a tolerance."""
        sizes = {"head_dim": self.factor_dim, "order": self.order, "value_dim": self.head_dim}
        return {**sizes, "norm": "order", "bound": 1.0, "scale": self.bound, "tolerance": self.tolerance}


def call_certificate(plan: BoundedPlan, call: Call) -> Certificate:
    """The certificate of a call with a plan, from the magnitudes of its values and the number of its tokens."""
    magnitudes = value_range(call.values, call.masks)
    roundings = sum_rounding(plan, call) if magnitudes.in_range(torch.float64) else math.inf
    return plan.certificate(roundings, call.shaped(magnitudes.largest.expand(call.query.shape[:2])))
