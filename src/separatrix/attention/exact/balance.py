r"""Powers of two that keep the factors of exact attention inside the range of their dtype, or an error that names them.

    s = scale * sum_l q_l k_1,l ... k_{k-1},l,        v = v_1 * ... * v_{k-1}

An intermediate product may overflow or underflow although the score or value is well within the range: 10^30 times
10^30 overflows in float32, whatever the scale. If this could matter, each coordinate of each factor is divided by the
power of two next to its largest magnitude, which is exact. The powers of the query and the keys are multiplied into the
scale, and the powers of the values into the output. After that no intermediate product overflows, and an underflow
changes a score by at most the smallest normal number times the new scale.

*When it could matter*: a score takes at most 2 k d multiplications, and one that underflows has an error of at most the
smallest normal number, times the remaining factors that exceed 1. The error must be below 2^-10 eps. A scale beyond the
range of its dtype, which becomes 0 or infinite, counts as one of these factors. Values are not balanced if no product
of magnitudes above 1 reaches 2^46 in float32 (2^480 in float64), and if the largest product over a column is at least
the reciprocal of this limit. A backward pass, whose gradients are products of all factors but one, uses them without
balancing only if all these products are within a factor of 2^16 of 1 (2^200 in float64); if factors are balanced, no
column is scaled below 2^-60 (2^-400). docs/derivations/exact-attention.md says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, numbers, truth
from separatrix.attention.call import Call
from separatrix.errors import SeparatrixError


def room(dtype: torch.dtype) -> float:
    """The log2 of the largest factor by which an underflow error may grow: 93 in float32, 960 in float64."""
    info = torch.finfo(dtype)
    return math.log2(info.eps) - 10 - math.log2(info.tiny)


def log2_abs(x: float) -> float:
    return math.log2(abs(x)) if x else -math.inf


@dataclass(frozen=True)
class Magnitudes:
    """The largest magnitude in each coordinate of each factor, in float64; NaN or inf if the input contains any.

    `scores` is (k, H, d) for the query and the keys, `values` is (k - 1, H, d_v), and `dtype` is the dtype of the call.
    """

    scores: Tensor
    values: Tensor
    scale: float
    dtype: torch.dtype

    @classmethod
    def of(cls, call: Call) -> Magnitudes:
        """The magnitudes of the keys and values that some query may attend, for a call without empty sets.

        Query heads that share keys count as one head.
        """
        heads = call.keys[0].shape[0]
        query = call.query.reshape(heads, -1, call.query.shape[2])
        hidden = [~mask.reshape(heads, -1, mask.shape[1]).any(1).unsqueeze(-1) for mask in call.masks]

        def largest(sets: Sequence[Tensor]) -> list[Tensor]:
            if hidden:
                sets = [x.masked_fill(where, 0.0) for x, where in zip(sets, hidden, strict=True)]
            return [x.abs().amax(1) for x in sets]

        scores, values = [query.abs().amax(1), *largest(call.keys)], largest(call.values)
        stacked = [torch.stack(x).to(torch.float64) for x in (scores, values)]
        return cls(stacked[0], stacked[1], call.scale, call.computed_in)

    @property
    def multiplications(self) -> float:
        """The base-2 logarithm of 2 k d, for order k and head dimension d."""
        return math.log2(2 * self.scores.shape[0] * self.scores.shape[2])

    def finite(self) -> bool:
        return truth(torch.isfinite(self.scores).all() & torch.isfinite(self.values).all())

    def moderate(self) -> bool:
        """Whether all magnitudes are finite, and no product of some of the factors overflows or underflows enough to
        change a result.
        """
        return truth(self._moderate())

    def _moderate(self) -> Tensor:
        limit = room(self.dtype)
        scores, values = self.scores.log2().clamp(min=0.0).sum(0), self.values.log2()
        products = values.sum(0).amax(-1)
        small = (scores <= limit - self.multiplications - max(log2_abs(self.scale), 0.0)).all()
        near_one = (values.clamp(min=0.0).sum(0) <= limit / 2).all()
        return small & near_one & ((products >= -limit / 2) | (products == -math.inf)).all()

    def _near_one(self) -> Tensor:
        """Whether the factors are moderate, and, for each factor, the largest product of all the others is near 1."""
        limit = NEAR[self.dtype]
        factors = (self.scores.log2(), self.values.log2())
        products = torch.stack([torch.cat([x[:m], x[m + 1 :]]).sum(0).amax(-1) for x in factors for m in range(len(x))])
        large = torch.stack([x.clamp(min=0.0).sum(0).amax(-1) for x in factors])
        far = (large > limit).any() | ((products < -limit) & (products > -math.inf)).any()
        return ~far & (self.scale == 0 or abs(log2_abs(self.scale)) <= limit)

    def size(self) -> Size:
        """Whether the factors may be multiplied without scaling, read from the device in one transfer."""
        moderate = self._moderate()
        scalars = (moderate, moderate & self._near_one(), self.values.log2().sum(0).max())
        small, near_one, log_output = numbers(torch.stack([x.to(torch.float64) for x in scalars]))
        return Size(bool(small), bool(near_one), log_output)


class Size(NamedTuple):
    """Whether the factors of a call may be multiplied without scaling.

    Attributes:
        moderate: Whether the factors need no scaling in a forward pass.
        near_one: Whether the factors need no scaling in a backward pass.
        log_output: The base-2 logarithm of the largest magnitude that an output may have, apart from rounding.
    """

    moderate: bool
    near_one: bool
    log_output: float


def size_of(call: Call) -> Size:
    """Whether the factors of a call need no balancing, computed by plain PyTorch."""
    return Magnitudes.of(call).size()


@dataclass(frozen=True)
class Balance:
    """A call with factors near 1, and the powers of two that convert its results to the results of the original call.

    The factors were divided by two to the power of `exponents`, (H, 1, d) for the query and each key set and (H, 1,
    d_v) for each value set. The query was also multiplied by `fraction` and by two to the power of `scale`, (H, 1, d),
    and the scale of the balanced call is 1. Where `scale` would be very small, it is increased by `kept`.
    """

    call: Call
    exponents: tuple[Tensor, ...]
    fraction: Tensor
    scale: Tensor
    kept: Tensor

    @classmethod
    def of(cls, call: Call, magnitudes: Magnitudes, *, backward: bool = False) -> Balance:
        """Balance a call with finite factors; raise an error that names them if scores or outputs are out of range."""
        scores, values = (torch.frexp(x).exponent for x in (magnitudes.scores, magnitudes.values))
        fraction, exponent = math.frexp(call.scale)
        total = scores.sum(0) + exponent
        nothing = (magnitudes.scores == 0).any(0) | (fraction == 0)
        total = total.masked_fill(nothing, torch.iinfo(total.dtype).min)
        of_scores, of_values = numbers(torch.stack([total.max(), values.sum(0).max()]))
        if of_scores > room(magnitudes.dtype) - magnitudes.multiplications:
            raise _scores_out_of_range(magnitudes)
        if of_values > _MOST:
            raise _values_out_of_range(magnitudes)
        least = -_LEAST[magnitudes.dtype] if backward else -_MOST // 2
        factor = torch.full_like(magnitudes.scores[0], fraction)
        if backward:
            # A column in which a factor is zero adds nothing to a score, but that factor's gradient is not zero.
            scale = total.masked_fill(nothing, 0).clamp(min=least)
        else:
            scale, factor = total.clamp(min=least), factor.masked_fill(nothing, 0.0)
        exponents = tuple(x.unsqueeze(1) for x in (*scores, *values))
        query, *sets = (
            times_power(x, -by) for x, by in zip((call.query, *call.keys, *call.values), exponents, strict=True)
        )
        count = len(call.keys)
        balanced = replace(
            call,
            query=times_power(query * factor.unsqueeze(1).to(query.dtype), scale.unsqueeze(1)),
            keys=tuple(sets[:count]),
            values=tuple(sets[count:]),
            scale=1.0,
        )
        kept = (scale - (scores.sum(0) + exponent)).unsqueeze(1)
        return cls(balanced, exponents, factor.unsqueeze(1), scale.unsqueeze(1), kept)

    @property
    def _of_output(self) -> Tensor:
        return torch.stack(self.exponents[len(self.call.keys) + 1 :]).sum(0)

    def output(self, out: Tensor) -> Tensor:
        """The output (H, L_q, d_v) of the call from that of the balanced call; infinite if it exceeds the range of the
        dtype."""
        return times_power(out, self._of_output)

    def balanced_output(self, out: Tensor) -> Tensor:
        return times_power(out, -self._of_output)

    def balanced_tangents(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tangents of query, keys and values of the balanced call, from the tangents of the call."""
        query, *sets = tensors
        by_query, *by_sets = self.exponents
        query = times_power(query * self.fraction.to(query.dtype), self.scale - by_query)
        return [query, *(times_power(x, -by) for x, by in zip(sets, by_sets, strict=True))]

    def incoming(self, grad_out: Tensor, grad_lse: Tensor) -> Incoming:
        """The incoming gradients of the balanced call, about 1 in each head, from those of the call."""
        columns = self._of_output
        kept = (columns.amax(-1, keepdim=True) - _LEAST[grad_out.dtype] - columns).clamp(min=0)
        columns = columns + kept
        largest = grad_out.abs().amax(1, keepdim=True)
        by_column = (torch.frexp(largest).exponent + columns).masked_fill(largest == 0, -_MOST)
        of_lse = grad_lse.abs().amax(1)
        by_lse = torch.frexp(of_lse).exponent.masked_fill(of_lse == 0, -_MOST).reshape(-1, 1, 1)
        power = torch.maximum(by_column.amax(-1, keepdim=True), by_lse)
        return Incoming(times_power(grad_out, columns - power), times_power(grad_lse, -power.squeeze(-1)), power, kept)

    def gradients(self, grads: Sequence[Tensor], incoming: Incoming) -> list[Tensor]:
        """The gradients of query, keys and values, from the gradients of the balanced call."""
        count = len(self.call.keys)
        by_query, *by_sets = self.exponents
        query = times_power(
            grads[0] * self.fraction.to(grads[0].dtype), self.scale - self.kept - by_query + incoming.power
        )
        keys = [
            times_power(x, incoming.power - by - self.kept)
            for x, by in zip(grads[1 : 1 + count], by_sets[:count], strict=True)
        ]
        values = [
            times_power(x, incoming.power - by - incoming.kept)
            for x, by in zip(grads[1 + count :], by_sets[count:], strict=True)
        ]
        return [query, *keys, *values]


class Incoming(NamedTuple):
    """Incoming gradients of a balanced call: they were divided by two to `power`, and their columns are too large by a
    factor of two to `kept`."""

    output: Tensor
    lse: Tensor
    power: Tensor
    kept: Tensor


NEAR = {torch.float32: 16.0, torch.float64: 200.0}
"""The largest magnitude of the base-2 logarithms of products that need no scaling in a backward pass."""
_LEAST = {torch.float32: 60, torch.float64: 400}
"""The base-2 logarithms of the smallest column scales in a backward pass."""


_MOST = 2000
"""Powers of two with exponents up to this one are products of two float64 numbers."""


def _power(exponents: Tensor) -> Tensor:
    """Two to the power of exponents from -1022 to 1023, in float64, assembled from bits and therefore exact."""
    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


def times_power(x: Tensor, exponents: Tensor) -> Tensor:
    """x times two to the power of exponents, exact unless the product leaves the range of x's dtype; exponents are
    clamped to 2000 in magnitude.

    Multiply in float64 and in two steps: the power may be out of range although the product is not.
    """
    exponents = exponents.clamp(-_MOST, _MOST)
    half = exponents // 2
    return (x.to(torch.float64) * _power(half) * _power(exponents - half)).to(x.dtype)


def _scores_out_of_range(magnitudes: Magnitudes) -> SeparatrixError:
    sizes = {"scale": log2_abs(magnitudes.scale)}
    for m, x in enumerate(numbers(magnitudes.scores.amax((1, 2)))):
        sizes[f"keys[{m - 1}]" if m else "query"] = log2_abs(x)
    products = number(magnitudes.scores.log2().sum(0).max()) + sizes["scale"]
    limit = room(magnitudes.dtype) - magnitudes.multiplications
    wider = "" if magnitudes.dtype == torch.float64 else ", or pass float64"
    return SeparatrixError(
        f"{_listed(sizes)}: the scores are made of products that reach 2^{products:.0f}, and exact attention in "
        f"{magnitudes.dtype} accepts at most 2^{limit:.0f}. Divide one of them{wider}."
    )


def _values_out_of_range(magnitudes: Magnitudes) -> SeparatrixError:
    sizes = {f"values[{m}]": log2_abs(x) for m, x in enumerate(numbers(magnitudes.values.amax((1, 2))))}
    return SeparatrixError(
        f"{_listed(sizes)}: their products overflow {magnitudes.dtype}. Divide one of them by a power of two."
    )


def _listed(sizes: dict[str, float]) -> str:
    """The factors with their sizes, the largest first."""
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} (up to 2^{size:.0f})" for name, size in ordered if size > 0)
