r"""A bound on the error of gradients: of the vector-Jacobian products of an output, relative to those of exact
attention.

Let p_t = exp(s_t) / D be the exact weights of a query's key tuples, o its exact output and g the incoming gradient of
that output. The computation has weights a_t in place of p_t, a_t' in place of p_t if a score is differentiated (a
polynomial's derivative is not the polynomial), o~ in place of o and derivatives ds_t~ of the scores in place of ds_t:

    sum_t a_t' (v_t - o~) ds_t~ - sum_t p_t (v_t - o) ds_t
        = sum_t (a_t' - p_t)(v_t - o~) ds_t~ + (o - o~) sum_t p_t ds_t~ + sum_t p_t (v_t - o)(ds_t~ - ds_t).

So with w >= |v_t - o~| and e >= |o - o~| in every entry, and |ds_t| <= reach, the errors are at most

    query, keys:  |g|_1 (reach (w sum_t |a_t' - p_t| + e) + w max_t |ds_t~ - ds_t|),
    values:       |g|_1 (sum_t |a_t - p_t|) (product of the other value sets' magnitudes),

and sums over queries for keys and values. For the polynomial method, in the notation of `certificate` and with
E' >= sum_t |P'(s_t) - exp(s_t)| (see `remainder`),

    sum_t |a_t' - p_t| <= (E' + E + rho) / D~,        sum_t |a_t - p_t| <= (2 E + rho) / D~.

The rounding of the backward pass is bounded like that of the forward pass: gamma times the sum of magnitudes, see
`arithmetic.rounding` and docs/derivations/near-linear-attention.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number
from separatrix.attention.bounds import SLACK, largest_bound


@dataclass(frozen=True)
class GradientCertificate:
    """Bounds on the errors of the gradients of query, keys and values, for an incoming gradient of the output.

    Let n_i be the sum of magnitudes of query i's incoming gradient, or 2^-32 of the largest such sum in its head if
    that is larger. Compared with the gradients of exact attention, and apart from the smallest positive number of their
    dtype,

    - the error of every entry of the query's gradient is at most ``query[i] * n_i``;
    - the error of every entry of the gradient of ``keys[m]`` is at most ``keys[m] * sum_i n_i``, over the queries of
      its head;
    - the error of every entry of the gradient of ``values[m]`` is at most ``values[m] * sum_i n_i``.

    If heads share a tensor, by broadcasting or in groups, its gradient is the sum of the gradients of these heads, and
    its bound the sum of their bounds.

    The bounds hold for gradients that are finite in their dtype. There is no bound for a gradient that arrives through
    the log-sum-exp.

    Attributes:
        query: The bound for each query, of shape (..., L_q), in float64.
        keys: The bound for each key set.
        values: The bound for each value set.
    """

    query: Tensor = field(repr=False)
    keys: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def total(self) -> float:
        """The largest of all these bounds; NaN if one of them is NaN."""
        return largest_bound(largest_number(self.query), *self.keys, *self.values)


@dataclass(frozen=True)
class Weights:
    """Bounds for the weights of each query, (H, L_q): on their errors and on their sums.

    `scores` and `values` bound the sums of |a_t' - p_t| and of |a_t - p_t|; `output` is e. The rounding terms are
    `score_rounding` times the values' magnitude, and `value_rounding`.
    """

    scores: Tensor
    values: Tensor
    output: Tensor
    score_rounding: Tensor
    value_rounding: Tensor


def certify_gradient(
    weights: Weights,
    reach: Sequence[Tensor],
    moved: Sequence[Tensor],
    width: Tensor,
    magnitude: Tensor,
    others: Sequence[Tensor],
    out: torch.dtype,
    copies: int,
) -> GradientCertificate:
    """The certificate from bounds on the weights.

    Args:
        weights: The bounds on the weights, infinite if nothing is known: see `Weights`.
        reach: For the query and each key set, bounds (H,) on the derivatives of the scores by its entries.
        moved: For the query and each key set, bounds on max_t |ds_t~ - ds_t|, each (H, L_q) or of a shape that
            broadcasts.
        width: max v_t - min v_t, (H, 1).
        magnitude: max |v_t|, (H, 1).
        others: For each value set, the largest product of the magnitudes of the others, (H,).
        out: The dtype of the gradients.
        copies: The largest number of heads that share a tensor: their gradients are summed in that dtype.
    """
    unit = copies * torch.finfo(out).eps / 2
    w = (width + weights.output) * SLACK
    off = w * weights.scores + weights.output + 2 * weights.score_rounding * magnitude
    errors = []
    for most, change in zip(reach, moved, strict=True):
        error = most.unsqueeze(-1) * off + w * change
        errors.append((error + 1.01 * unit * (most.unsqueeze(-1) * w + error)) * SLACK)
    share = (weights.values + weights.value_rounding) * (1 + 1.01 * unit) + 1.01 * unit
    values = tuple(_most(share * other.unsqueeze(-1) * SLACK) for other in others)
    query = errors[0].masked_fill(torch.isnan(errors[0]), math.inf)  # infinity times 0 is not a bound
    return GradientCertificate(query, tuple(_most(x) for x in errors[1:]), values)


def _most(x: Tensor) -> float:
    """The largest entry; infinity if an entry is NaN."""
    largest = largest_number(x)
    return math.inf if math.isnan(largest) else largest
