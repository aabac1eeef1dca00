"""A forecast of the certified error: sums over all tuples are replaced by those over a sample with a fixed seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.host import number
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import Analysis, amplitudes, gamma, gradient_gamma, relative_error
from separatrix.attention.near_linear.approximation.coordinates import Frame, reaches
from separatrix.attention.near_linear.approximation.greedy import greedy_error, key_powers
from separatrix.attention.near_linear.approximation.monomials import Array
from separatrix.attention.near_linear.approximation.remainder import Polynomial
from separatrix.attention.near_linear.cost import sampled_queries, sampled_tuples


@dataclass(frozen=True)
class SampledQuery:
    """A query in the sample of an analysis, and numbers of its head.

    `radius` bounds its scores; `inverse` and `powers` are `Forecast.mean_power` of 0 and of all even moments, as far as
    they were needed. `reach` is the largest derivative of a score by an entry, twice that where keys are shifted.
    """

    head: int
    where: int
    radius: float
    inverse: float
    width: float
    largest: float
    reach: float
    others: float
    powers: list[float] = field(default_factory=list, repr=False)


class Forecast:
    """Forecasts the certified error of polynomials for an analysed call.

    It keeps the sample of scores, and what was computed from it, while a plan is searched.

    Args:
        analysis: The analysis of the call.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.extremes: list[SampledQuery] = []
        self._moments: dict[int, Tensor] = {}
        self._last_power: tuple[int, Tensor] | None = None
        self._errors: dict[Polynomial, tuple[Tensor, Tensor]] = {}

    @cached_property
    def sampled(self) -> Tensor:
        """Indices (H, queries) of the queries in the sample."""
        return _sample_queries(self.analysis.radii)

    @cached_property
    def sampled_radii(self) -> Tensor:
        return torch.gather(self.analysis.radii, 1, self.sampled)

    @cached_property
    def scores(self) -> Tensor:
        """(H, queries, tuples) in the sample."""
        return _sample_scores(self.analysis.call, self.analysis.frame, self.sampled)

    @cached_property
    def weights(self) -> Tensor:
        """exp(s) (H, queries, tuples) in the sample."""
        return torch.exp(self.scores)

    @cached_property
    def _squares(self) -> Tensor:
        return self.scores * self.scores

    @cached_property
    def _mean_weights(self) -> Tensor:
        """The mean of exp(s) over the tuples in the sample, (H, queries)."""
        return self.weights.mean(-1)

    @cached_property
    def _heaviest(self) -> float:
        """The largest value over the mean of exp(s), for the query in the sample where that is largest."""
        heaviest = self.mean_power(0) * self.analysis.values.largest
        return number(heaviest.max()) if heaviest.numel() else 0.0

    @cached_property
    def key_powers(self) -> dict[int, Tensor]:
        """What the error of an index set that is not of total degree needs of the keys."""
        return key_powers(self.analysis.call, self.analysis.frame)

    def mean_power(self, moment: int) -> Tensor:
        """The mean of s^moment, an even one, over that of exp(s), (H, queries), in the sample.

        A causal query at the beginning has too few tuples for a mean: in a causal call it is the largest
        s^moment / exp(s).
        """
        if moment not in self._moments:
            causal = self.analysis.shape.is_causal
            if moment == 0:
                mean = 1 / (self.weights.amin(-1) if causal else self._mean_weights)
            else:
                power = self._power(moment)
                mean = (power / self.weights).amax(-1) if causal else power.mean(-1) / self._mean_weights
            self._moments[moment] = mean
        return self._moments[moment]

    def _power(self, moment: int) -> Tensor:
        """s^moment (H, queries, tuples) in the sample, for an even moment, from the last one that was computed."""
        at, power = self._last_power or (2, self._squares)
        if at > moment:
            at, power = 2, self._squares
        for _ in range((moment - at) // 2):
            power = power * self._squares
        self._last_power = (moment, power)
        return power

    def forget_powers(self) -> None:
        """Free the last power of the scores: half a megabyte that a run would hold beside its own memory."""
        self._last_power = None

    def error(self, polynomial: Polynomial, rank: int, dtype: torch.dtype, output_only: bool = False) -> float:
        """Forecast the certificate's total for a total-degree set.

        If gradients will be taken, it is the larger of the output's and theirs, unless `output_only`.
        """
        analysis, radii, power = self.analysis, self.sampled_radii, self.mean_power(polynomial.moment)
        if polynomial not in self._errors:
            self._errors[polynomial] = polynomial.factors(radii) * power, polynomial.magnitude(radii)
        truncation, magnitude = self._errors[polynomial]
        output = self._output_error(truncation, magnitude, polynomial.degree, rank, dtype)
        if output_only or not analysis.differentiable or not truncation.numel():
            return output
        inverse = self.mean_power(0)
        slope = polynomial.derivative_error(radii, power, inverse)
        rounding = gradient_gamma(analysis, polynomial.degree, rank, dtype) * inverse
        width, largest = analysis.values.widest, analysis.values.largest
        scores = width * (slope + truncation) + output + 2 * largest * rounding * polynomial.derivative_magnitude(radii)
        values = (2 * truncation + rounding * magnitude).amax(1)
        reach = torch.stack(reaches(analysis.frame)).amax(0)
        doubled = 1 if analysis.frame.shift is None else 2
        errors = [doubled * reach * scores.amax(1), *(values * others for others in analysis.values.others)]
        return max(output, number(torch.stack(errors).max()))

    def least_rounding(self, degree: int, rank: int) -> float:
        """A lower bound on every forecast's rounding in float64: that of weights 1, the first coefficient."""
        analysis = self.analysis
        adds = Summing(1, 1 << 62)
        least = relative_error(analysis.shape, analysis.frame.width, degree, rank, adds, torch.float64)
        return least * self._heaviest

    def greedy_error(self, alphas: Array, dtype: torch.dtype) -> float:
        """Forecast the certificate's total for an index set that is shaped by the amplitudes."""
        analysis = self.analysis
        rows = self.sampled.unsqueeze(-1).expand(-1, -1, analysis.shape.d)
        query = torch.gather(analysis.call.query, 1, rows)
        E = greedy_error(query, analysis.frame, alphas, amplitudes(analysis), self.key_powers)
        tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
        truncation = E / tuples * self.mean_power(0)
        magnitude = torch.exp(self.sampled_radii)
        return self._output_error(truncation, magnitude, int(alphas.sum(1).max()), len(alphas), dtype)

    def _output_error(self, truncation: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype) -> float:
        if not truncation.numel():
            return 0.0
        analysis = self.analysis
        rounding = 2 * gamma(analysis, degree, rank, dtype) * magnitude * self.mean_power(0)
        return number((truncation * analysis.values.widest + rounding * analysis.values.largest).max())


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
