"""What is known of a call before it is computed, and from it a forecast of the certified error.

Bounds on the entries are exact; sums over all tuples are replaced by those over a sample drawn with a fixed seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.host import number, truth
from separatrix.attention.arithmetic.rounding import Summing, expanded_gradient_sum, expanded_sum
from separatrix.attention.bounds import largest_magnitudes
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import Frame, key_mean, make_frame
from separatrix.attention.near_linear.approximation.greedy import greedy_error, key_powers
from separatrix.attention.near_linear.approximation.monomials import Array
from separatrix.attention.near_linear.approximation.remainder import Polynomial
from separatrix.attention.near_linear.approximation.rotation import drift, rotated
from separatrix.attention.near_linear.causal import causal_summing
from separatrix.attention.near_linear.certificate import ValueRange, key_norms, query_radii, value_range
from separatrix.attention.near_linear.chunks import chunk_tokens
from separatrix.attention.near_linear.cost import Shape, sampled_queries, sampled_tuples
from separatrix.attention.near_linear.gradient_certificate import reaches
from separatrix.attention.near_linear.sums import summing


@dataclass(frozen=True)
class SampledQuery:
    """A query in the sample of an analysis, and numbers of its head.

    `radius` bounds its scores, and `one` and `powers` are `mean_power` of 0 and of all even moments, as far as they
    were asked for. `reach` is the largest derivative of a score by an entry, twice that where keys are shifted.
    """

    head: int
    where: int
    radius: float
    one: float
    width: float
    largest: float
    reach: float
    others: float
    powers: list[float] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Analysis:
    """What is known of a call before it is computed, and, once it is asked for, a sample of its scores."""

    call: Call
    shape: Shape
    frame: Frame
    norms: Tensor
    radii: Tensor
    values: ValueRange
    drift: Tensor | None
    differentiable: bool
    moments: dict[int, Tensor] = field(default_factory=dict, repr=False)
    last_power: dict[int, Tensor] = field(default_factory=dict, repr=False)
    extremes: list[SampledQuery] = field(default_factory=list, repr=False)
    errors: dict[Polynomial, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)
    key_powers: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @property
    def radius(self) -> float:
        return number(self.radii.max()) if self.radii.numel() else 0.0

    @cached_property
    def sampled(self) -> Tensor:
        """Indices (H, queries) of the queries in the sample."""
        return _sample_queries(self.radii)

    @cached_property
    def sampled_radii(self) -> Tensor:
        return torch.gather(self.radii, 1, self.sampled)

    @cached_property
    def scores(self) -> Tensor:
        """(H, queries, tuples) in the sample."""
        return _sample_scores(self.call, self.frame, self.sampled)

    @cached_property
    def weights(self) -> Tensor:
        """exp(s) (H, queries, tuples) in the sample."""
        return torch.exp(self.scores)

    @cached_property
    def squares(self) -> Tensor:
        """s^2 (H, queries, tuples) in the sample."""
        return self.scores * self.scores

    @cached_property
    def mean_weights(self) -> Tensor:
        """The mean of exp(s) over the tuples in the sample, (H, queries)."""
        return self.weights.mean(-1)

    @cached_property
    def heaviest(self) -> float:
        """The largest value over the mean of exp(s), for the query in the sample where that is largest."""
        found = mean_power(self, 0) * self.values.largest
        return number(found.max()) if found.numel() else 0.0

    def entry_bound(self) -> float:
        """B: the largest magnitude in the query and the keys."""
        sets = [(self.call.query, None), *zip(self.call.keys, self.call.mask_of_each, strict=True)]
        return max(number(largest_magnitudes("keys", x, mask).max()) if x.numel() else 0.0 for x, mask in sets)


def analyse(call: Call, differentiable: bool = False) -> Analysis:
    """Bounds and a sample; an error for NaN or infinity.

    If a gradient is wanted, all coordinates are kept and index sets are of total degree: a coordinate in which all
    queries are zero adds nothing to a score, but scores have a gradient in it.
    """
    shift = key_mean(call) if call.order == 2 and not call.positions.is_causal else None
    frame = make_frame(call, shift, torch.float64, differentiable)
    return _analyse(call, frame, value_range(call), differentiable)


def in_float32(analysis: Analysis) -> bool:
    """Whether no number of consequence leaves the range of float32.

    Gradients multiply values, keys and incoming gradients of very different sizes: for them sizes have to be moderate.
    """
    if not analysis.values.in_range(torch.float32):
        return False
    if not analysis.differentiable:
        return True
    sizes = [x.amax(-1) for x in analysis.frame.largest if x.numel()]
    low, high = (2.0**-_MODERATE, 2.0**_MODERATE)
    moderate = all(truth(((x >= low) & (x <= high)).all()) for x in sizes)
    return moderate and analysis.values.low >= -_MODERATE and analysis.values.high <= 2 * _MODERATE + 40


_MODERATE = 16
"""The logarithm to base 2 of the sizes that are moderate."""
_LEFT_OUT = 1 / 64
"""The part of the tolerance that coordinates left out of a basis may take."""


def turned(analysis: Analysis, tolerance: float) -> Analysis | None:
    """The analysis in a better basis; None if no basis lowers the rank, or if any would change scores.

    Beyond order 2 scores depend on the basis, and a causal call may not look at the keys that come later.
    """
    call, frame = analysis.call, analysis.frame
    if call.order > 2 or analysis.shape.is_causal or frame.width < 2 or 0 in call.query.shape:
        return None
    width = number(analysis.values.width.max())
    slack = _LEFT_OUT * tolerance / width if width else 0.0
    basis = rotated(call, frame, None if analysis.differentiable else slack)
    if basis is None:
        return None
    return _analyse(call, basis, analysis.values, analysis.differentiable)


def _analyse(call: Call, frame: Frame, values: ValueRange, differentiable: bool) -> Analysis:
    norms = key_norms(call, frame)
    radii = query_radii(call, frame, norms)
    heads, length, d = call.query.shape
    shape = Shape(heads, length, call.key_lengths, d, call.values[0].shape[2], call.positions.is_causal)
    moved = drift(call, frame)
    if moved is not None:  # coordinates computed again, in other chunks, are rounded otherwise
        radii = radii + 2 * moved
    return Analysis(call, shape, frame, norms, radii, values, moved, differentiable)


def _sample_queries(radii: Tensor) -> Tensor:
    """Indices (H, queries): half of them those with the largest bounds, and half spread evenly."""
    heads, length = radii.shape
    count = min(sampled_queries(heads) // 2, length)
    even = torch.arange(count, device=radii.device) * length // max(count, 1)
    return torch.cat([radii.topk(count, dim=1).indices, even.expand(radii.shape[0], -1)], 1)


def _sample_scores(call: Call, frame: Frame, sampled: Tensor) -> Tensor:
    """Scores (H, queries, tuples) of the sampled queries with tuples of keys that are drawn with a fixed seed.

    All queries of a head share the tuples, so that the scores are one product of matrices. Where the call is causal a
    query may not attend some of them; they are counted all the same, which can only raise a largest value.
    """
    heads, _, d = call.query.shape
    generator = torch.Generator().manual_seed(0)
    rows = torch.gather(call.query, 1, sampled.unsqueeze(-1).expand(-1, -1, d))
    product = None
    for m, key in enumerate(call.keys):
        where = torch.rand(heads, sampled_tuples(heads), generator=generator).to(key.device)
        index = (where * key.shape[1]).long().clamp(max=max(key.shape[1] - 1, 0))
        mask = torch.gather(call.masks[m], 1, index) if call.masks else None
        drawn = key[torch.arange(heads, device=key.device).unsqueeze(1), index]
        x = frame.coordinates(drawn, m + 1, mask)
        product = x if product is None else product * x
    assert product is not None, "a call has a key set"
    return frame.coordinates(rows, 0).mT @ product


def mean_power(analysis: Analysis, moment: int) -> Tensor:
    """The mean of s^moment, an even one, over that of exp(s), (H, queries), in the sample.

    A causal query at the beginning has too few tuples for a mean: in a causal call it is the largest s^moment / exp(s).
    """
    if moment not in analysis.moments:
        causal = analysis.shape.is_causal
        if moment == 0:
            found = 1 / (analysis.weights.amin(-1) if causal else analysis.mean_weights)
        else:
            power = _power(analysis, moment)
            found = (power / analysis.weights).amax(-1) if causal else power.mean(-1) / analysis.mean_weights
        analysis.moments[moment] = found
    return analysis.moments[moment]


def _power(analysis: Analysis, moment: int) -> Tensor:
    """s^moment (H, queries, tuples) in the sample, for an even moment; the last one is kept, and the next goes on."""
    at = next(iter(analysis.last_power), 0)
    if not 0 < at <= moment:
        at, power = 2, analysis.squares
    else:
        power = analysis.last_power[at]
    for _ in range((moment - at) // 2):
        power = power * analysis.squares
    analysis.last_power.clear()
    analysis.last_power[moment] = power
    return power


def gamma(analysis: Analysis, degree: int, rank: int, dtype: torch.dtype) -> float:
    """A bound on the relative error of the sums of a call, from its roundings (see `arithmetic.rounding`)."""
    call = analysis.call
    adds = causal_summing(call, rank) if analysis.shape.is_causal else summing(call, rank, dtype)
    return _gamma(analysis, degree, rank, adds, dtype)


def _gamma(analysis: Analysis, degree: int, rank: int, summing: Summing, dtype: torch.dtype) -> float:
    lengths = analysis.shape.key_lengths
    return expanded_sum(summing.tokens(lengths), len(lengths), analysis.frame.width, degree, rank).gamma(dtype)


def gradient_gamma(analysis: Analysis, degree: int, rank: int, dtype: torch.dtype) -> float:
    """The relative error of the sums of its backward pass, which adds up tokens in chunks whatever the engine."""
    shape, width = analysis.shape, analysis.frame.width
    chunk = chunk_tokens(max(shape.heads, 1), rank, dtype == torch.float64)
    summing = causal_summing(analysis.call, rank) if shape.is_causal else Summing(chunk, chunk)
    tokens, queries = summing.tokens(shape.key_lengths), summing.tokens([shape.query_length])
    sums = expanded_gradient_sum(tokens, queries, len(shape.key_lengths), width, shape.d_v, degree, rank)
    return sums.gamma(dtype)


def forecast(
    analysis: Analysis, polynomial: Polynomial, rank: int, dtype: torch.dtype, output_only: bool = False
) -> float:
    """Forecast the certificate's total for a total-degree set, by sums over the sample in place of all tuples.

    If gradients will be taken, it is the larger of the output's and theirs, unless `output_only`.
    """
    radii, power = analysis.sampled_radii, mean_power(analysis, polynomial.moment)
    if polynomial not in analysis.errors:
        analysis.errors[polynomial] = polynomial.factors(radii) * power, polynomial.magnitude(radii)
    truncation, magnitude = analysis.errors[polynomial]
    output = _forecast(analysis, truncation, magnitude, polynomial.degree, rank, dtype)
    if output_only or not analysis.differentiable or not truncation.numel():
        return output
    one = mean_power(analysis, 0)
    slope = polynomial.derivative_error(radii, power, one)
    rounding = gradient_gamma(analysis, polynomial.degree, rank, dtype) * one
    width, largest = analysis.values.widest, analysis.values.largest
    scores = width * (slope + truncation) + output + 2 * largest * rounding * polynomial.derivative_magnitude(radii)
    values = (2 * truncation + rounding * magnitude).amax(1)
    reach = torch.stack(reaches(analysis.frame)).amax(0)
    doubled = 1 if analysis.frame.shift is None else 2
    found = [doubled * reach * scores.amax(1), *(values * others for others in analysis.values.others)]
    return max(output, number(torch.stack(found).max()))


def least_rounding(analysis: Analysis, degree: int, rank: int) -> float:
    """A lower bound on every forecast's rounding in float64: that of weights 1, the polynomial's first coefficient."""
    return _gamma(analysis, degree, rank, Summing(1, 1 << 62), torch.float64) * analysis.heaviest


def outside(analysis: Analysis, alphas: Array, query: Tensor) -> Tensor:
    """E (H, c) of queries for a set shaped by the amplitudes; what it needs of the keys is computed once."""
    if not analysis.key_powers:
        analysis.key_powers.update(key_powers(analysis.call, analysis.frame))
    return greedy_error(query, analysis.frame, alphas, amplitudes(analysis), analysis.key_powers)


def greedy_forecast(analysis: Analysis, alphas: Array, dtype: torch.dtype) -> float:
    """The error to expect of an index set that is shaped by the amplitudes."""
    rows = analysis.sampled.unsqueeze(-1).expand(-1, -1, analysis.shape.d)
    E = outside(analysis, alphas, torch.gather(analysis.call.query, 1, rows))
    tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
    magnitude = torch.exp(analysis.sampled_radii)
    truncation = E / tuples * mean_power(analysis, 0)
    return _forecast(analysis, truncation, magnitude, int(alphas.sum(1).max()), len(alphas), dtype)


def _forecast(
    analysis: Analysis, truncation: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype
) -> float:
    if not truncation.numel():
        return 0.0
    relative = gamma(analysis, degree, rank, dtype)
    rounding = 2 * relative * magnitude * mean_power(analysis, 0)
    width, largest = analysis.values.widest, analysis.values.largest
    return number((truncation * width + rounding * largest).max())


def amplitudes(analysis: Analysis) -> Tensor:
    """b_l (d',), the largest over the heads."""
    product = analysis.frame.largest[0]
    for largest in analysis.frame.largest[1:]:
        product = product * largest
    return product.amax(0) if product.shape[0] else product.sum(0)
