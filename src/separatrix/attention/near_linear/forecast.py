"""Forecasts of certified errors, from means over a sample of queries and key tuples, drawn with a fixed seed.

Queries share the tuples of their head, so that their scores are one product of matrices. In a causal call a query
attends only some of the sampled tuples. The sample, in which all tuples have equal weights, says little about the first
queries: their sums have few terms and may be far from any mean. So these queries are a separate part of the sample,
with all of their tuples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number, numbers
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.bounds import product_of
from separatrix.attention.near_linear.analysis import (
    Analysis,
    Deviation,
    deviation,
    gamma,
    gradient_gamma,
    relative_error,
)
from separatrix.attention.near_linear.approximation.coordinates import reaches
from separatrix.attention.near_linear.approximation.greedy import greedy_error
from separatrix.attention.near_linear.approximation.monomials import Array
from separatrix.attention.near_linear.approximation.remainder import (
    Polynomial,
    least_chebyshev,
    taylor,
    taylor_factor_of_number,
)
from separatrix.attention.near_linear.cost import LARGEST_DEGREE, LARGEST_RANK, sampled_queries, sampled_tuples

LESS = 0.99
"""The factor of lower bounds on forecasts, which covers their own rounding."""
SMALL_RADIUS = 0.25
"""For bounds on the scores up to this one, no Chebyshev polynomial is better than Taylor's."""


class Forecast:
    """Forecasts the certified error of polynomials for an analysed call, from the sampled queries, (H, queries) each.

    It caches the sample and the means over it while a plan is searched.

    Args:
        analysis: The analysis of the call.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._powers: dict[int, Tensor] = {}
        self._spreads: dict[tuple[int, int], Tensor] = {}
        self._largest: dict[tuple[int, int], tuple[float, float]] = {}
        self._last: tuple[Polynomial, int, tuple[Tensor, Tensor, Tensor]] | None = None

    @cached_property
    def _parts(self) -> list[SamplePart]:
        return draw_parts(self.analysis)

    @cached_property
    def queries(self) -> Tensor:
        """The indices of the sampled queries."""
        return torch.cat([part.queries for part in self._parts], 1)

    @cached_property
    def radii(self) -> Tensor:
        """The bounds on the scores of the sampled queries."""
        return torch.gather(self.analysis.radii, 1, self.queries)

    def forget_tuples(self) -> None:
        """Free the memory of the scores before a run; tuples are drawn again if another mean is needed."""
        self.__dict__.pop("_parts", None)

    def mean_power(self, moment: int) -> Tensor:
        """The mean of s^moment, for an even moment, divided by the mean of exp(s)."""
        if moment not in self._powers:
            self._powers[moment] = torch.cat([part.mean_power(moment) for part in self._parts], 1)
        return self._powers[moment]

    def spread(self, moment: int, columns: int) -> Tensor:
        """Forecast sum_t s_t^moment |v_t - o| over sum_t exp(s_t), as the certificate bounds it.

        The forecast is bounded by the range of the values, and by columns of squared deviations unless their number is
        0.
        """
        if (moment, columns) not in self._spreads:
            power = self.mean_power(moment)
            spread = power * self.analysis.values.widest
            if columns:
                away = self._deviation
                squares = torch.cat([part.weighted_squares(moment, columns, away) for part in self._parts], 1)
                spread = torch.minimum(spread, torch.sqrt(power * squares) * away.scale + power * self._distance)
            self._spreads[moment, columns] = spread
        return self._spreads[moment, columns]

    def _largest_spread(self, moment: int, columns: int) -> tuple[float, float]:
        """The largest spread of a query of any head, and the bound on the scores of this query."""
        if (moment, columns) not in self._largest:
            spread = self.spread(moment, columns).flatten()
            if not spread.numel():
                return 0.0, 0.0
            at = spread.argmax()
            self._largest[moment, columns] = tuple(numbers(torch.stack([spread[at], self.radii.flatten()[at]])))
        return self._largest[moment, columns]

    @cached_property
    def _deviation(self) -> Deviation:
        return deviation(self.analysis.call, self.analysis.values)

    @cached_property
    def _distance(self) -> Tensor:
        """The distance of the outputs from the centre of the values."""
        output = torch.cat([part.output() for part in self._parts], 1)
        return (output - self._deviation.centre.unsqueeze(1)).abs().amax(-1)

    @cached_property
    def _share(self) -> Tensor:
        """1 over the mean of exp(s)."""
        return self.mean_power(0)

    @cached_property
    def _heaviest(self) -> float:
        """The ratio of the largest value to the mean of exp(s), for the query in the sample for which it is largest."""
        return largest_number(self._share * self.analysis.values.largest)

    @cached_property
    def reach(self) -> Tensor:
        """The largest derivative of a score by an entry, doubled if keys are shifted, (H, 1)."""
        doubled = 1 if self.analysis.frame.shift is None else 2
        return doubled * torch.stack(reaches(self.analysis.frame)).amax(0).unsqueeze(1)

    def rank(self, degree: int) -> int:
        """The rank of the polynomials of a degree."""
        return math.comb(self.analysis.frame.width + degree, degree)

    def taylors(self, degree: int) -> list[Polynomial]:
        """Taylor's polynomial, with a moment up to the degree and, unless there are gradients, with one above it."""
        beyond = degree % 2 and not self.analysis.differentiable and self.rank(degree + 1) <= LARGEST_RANK
        return [taylor(degree), taylor(degree, beyond=True)] if beyond else [taylor(degree)]

    def next_degree(self, least: int, largest_rank: float, target: float, columns: int) -> int | None:
        """The lowest degree from `least` on at which a polynomial may keep the target; None if there is none."""
        degree = least
        while self.may_keep(degree, largest_rank, target):
            if LESS * self._least_error(degree, columns) <= target:
                return degree
            degree += 1
        return None

    def may_keep(self, degree: int, largest_rank: float, target: float) -> bool:
        """Whether a degree is low enough to be tried, and rounding in float64 alone does not exceed the target.

        A lower bound on the rounding part of every forecast is the part for weights of 1, the first coefficient.
        """
        rank, shape, width = self.rank(degree), self.analysis.shape, self.analysis.frame.width
        if degree > LARGEST_DEGREE or rank > largest_rank:
            return False
        rounding = relative_error(shape, width, degree, rank, Summing(1, 1 << 62), torch.float64)
        return rounding * self._heaviest <= target

    def _least_error(self, degree: int, columns: int) -> float:
        """A lower bound on the forecasts of all polynomials of a degree, from the forecasts for single queries."""
        radius, errors = self.analysis.radius, []
        taylors = [polynomial.moment for polynomial in self.taylors(degree)]
        moments = range(0, degree, 2) if radius >= SMALL_RADIUS else ()
        spreads = {moment: self._largest_spread(moment, columns) for moment in (*moments, *taylors)}
        for moment in taylors:
            spread, bound = spreads[moment]
            errors.append(spread * taylor_factor_of_number(degree, moment, bound))
        for moment in moments:
            errors.append(spreads[moment][0] * least_chebyshev(degree, moment, radius)[0])
        return min(errors)

    def error(self, polynomial: Polynomial, dtype: torch.dtype, output_only: bool = False, columns: int = 0) -> float:
        """Forecast the certificate's total for a total-degree set, with columns of squared deviations or without.

        If gradients will be computed, return the larger of the forecasts for output and gradients, unless
        `output_only`.
        """
        analysis, degree, rank = self.analysis, polynomial.degree, self.rank(polynomial.degree)
        truncation, error, magnitude = self._truncation(polynomial, columns)
        output = self.output_error(error, magnitude, degree, rank, dtype)
        if output_only or not analysis.differentiable:
            return largest_number(output)
        power = self.mean_power(polynomial.moment)
        slope = polynomial.derivative_error(self.radii, analysis.radius, power, self._share)
        slope_magnitude = polynomial.derivative_magnitude(self.radii)
        rounding = gradient_gamma(analysis, degree, rank, dtype)
        return largest_number(self.gradient_error(output, truncation, magnitude, slope, slope_magnitude, rounding))

    def _truncation(self, polynomial: Polynomial, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        """The truncation errors of the weights and of the outputs, and the magnitude of the sums, in the sample.

        These errors are the same for all dtypes, and are cached for the most recent polynomial.
        """
        if self._last is None or self._last[:2] != (polynomial, columns):
            R, moment = self.radii, polynomial.moment
            if polynomial.relative is None:
                power, spread = self.mean_power(moment), self.spread(moment, columns)
                factors = polynomial.factors(R, self.analysis.radius)
                truncation, error = factors * power, factors * spread
            else:
                truncation = R.new_full((), polynomial.variation)  # type: ignore[arg-type]
                error = truncation * self.analysis.values.widest
            self._last = (polynomial, columns, (truncation, error, polynomial.magnitude(R)))
        return self._last[2]

    def shaped_error(self, alphas: Array, powers: dict[int, Tensor], dtype: torch.dtype) -> float:
        """Forecast the certificate's total for an index set shaped by the amplitudes, given the `key_powers`."""
        analysis = self.analysis
        E = greedy_error(_rows(analysis.call.query, self.queries), analysis.frame, alphas, analysis.amplitudes, powers)
        tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
        error, magnitude = E / tuples * self._share * analysis.values.widest, torch.exp(self.radii)
        return largest_number(self.output_error(error, magnitude, int(alphas.sum(1).max()), len(alphas), dtype))

    def output_error(self, error: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype) -> Tensor:
        """The error of the outputs of the sample, from their truncation errors and the magnitudes of the sums."""
        rounding = 2 * gamma(self.analysis, degree, rank, dtype) * magnitude * self._share
        return error + rounding * self.analysis.values.largest

    def gradient_error(
        self,
        output: Tensor,
        truncation: Tensor,
        magnitude: Tensor,
        slope: Tensor,
        slope_magnitude: Tensor,
        rounding: float,
    ) -> Tensor:
        """The larger of the errors of outputs and of gradients, from the errors of the sums of P and of P'."""
        values, rounded = self.analysis.values, rounding * self._share
        scores = values.widest * (slope + truncation) + output + 2 * values.largest * rounded * slope_magnitude
        by_values = torch.stack(values.others).amax(0).unsqueeze(1) * (2 * truncation + rounded * magnitude)
        return torch.maximum(output, torch.maximum(self.reach * scores, by_values))


class SamplePart:
    """Sums of powers of the scores over tuples, for some queries, divided by the sums of exp(s).

    The queries have the indices `queries` (H, queries), and the tokens of each key set the indices `tuples` (H,
    tuples); `attended` (H, queries, tuples) says which tuples a query attends, None for all.
    """

    def __init__(
        self, analysis: Analysis, queries: Tensor, tuples: Sequence[Tensor], attended: Tensor | None = None
    ) -> None:
        self.queries = queries
        self._call, self._tuples, self._attended = analysis.call, tuples, attended
        call, of = analysis.call, analysis.frame.coordinates
        masks = [torch.gather(mask, 1, index) for mask, index in zip(call.masks, tuples, strict=False)]
        self._masks: Sequence[Tensor | None] = masks or (None,) * len(tuples)
        sets = enumerate(zip(call.keys, tuples, self._masks, strict=True), 1)
        keys = product_of([of(_rows(key, index), m, mask) for m, (key, index, mask) in sets])
        self._scores = of(_rows(call.query, queries), 0).mT @ keys  # (H, queries, tuples)
        self._weights = self._shown(torch.exp(self._scores))
        totals = self._weights.sum(-1)
        self._totals = totals.masked_fill(totals == 0, torch.inf)  # a query with nothing to attend has means of 0
        self._share: Tensor | None = None
        self._sums: dict[bool, list[Tensor]] = {False: [], True: []}
        self._terms: dict[bool, Tensor] = {}

    def _shown(self, x: Tensor) -> Tensor:
        """Numbers (H, queries, tuples); 0 for a tuple that is not attended."""
        return x if self._attended is None else x * self._attended

    def weighted_squares(self, moment: int, columns: int, away: Deviation) -> Tensor:
        """The largest of the sums of s^moment times a column of squared deviations, divided by the sum of exp(s).

        The shape is (H, queries); the largest is over the columns.

        The sums of several columns are not computed: the ratio of the largest of them to the sum of the largest squares
        is assumed to be the same for every power as for s^0.
        """
        sums = self.mean_power(moment, away)
        if columns == 1:
            return sums
        if self._share is None:  # the mean square of the largest column over the mean of the largest squares, (H, 1)
            squares = product_of([away.squares(value, m, columns) for m, value in enumerate(self._values)])
            self._share = squares.mean(1).amax(-1, keepdim=True) / self._squares(away).mean(-1)
        return sums * self._share

    def output(self) -> Tensor:
        """The outputs (H, queries, d_v)."""
        values = product_of([value.to(torch.float64) for value in self._values])
        return self._weights @ values / self._totals.unsqueeze(-1)

    @cached_property
    def _values(self) -> list[Tensor]:
        """The values (H, tuples, d_v) of each set; 0 for masked tokens."""
        values = [_rows(value, index) for value, index in zip(self._call.values, self._tuples, strict=True)]
        return [
            value if mask is None else value.masked_fill(~mask.unsqueeze(-1), 0.0)
            for value, mask in zip(values, self._masks, strict=True)
        ]

    @cached_property
    def _squared_scores(self) -> Tensor:
        return self._scores * self._scores

    def _squares(self, away: Deviation) -> Tensor:
        """The largest squared deviations of the values, (H, 1, tuples)."""
        return product_of([away.squares(value, m, 1) for m, value in enumerate(self._values)]).mT

    def mean_power(self, moment: int, away: Deviation | None = None) -> Tensor:
        """The sum of s^moment, for an even moment, divided by the sum of exp(s), (H, queries); weighted by squares of
        `away`.

        A matrix product would be faster, but its roundings depend on the number of threads.
        """
        weighted = away is not None
        sums = self._sums[weighted]
        while 2 * len(sums) <= moment:
            if sums:
                terms = self._terms[weighted] * self._squared_scores
            else:
                weights = self._scores.new_ones(()) if away is None else self._squares(away)
                terms = self._shown(weights.expand_as(self._scores))
            self._terms[weighted] = terms
            sums.append(terms.sum(-1) / self._totals)
        return sums[moment // 2]


def draw_parts(analysis: Analysis) -> list[SamplePart]:
    """The drawn queries with drawn tuples and, for a causal call, its first queries with all of their tuples."""
    call, radii = analysis.call, analysis.radii
    heads, length = radii.shape
    count = min(sampled_queries(heads) // 2, length)
    even = torch.arange(count, device=radii.device) * length // max(count, 1)
    # Half of the queries are those with the largest bounds, and half are spread evenly.
    queries = torch.cat([radii.topk(count, dim=1).indices, even.expand(heads, -1)], 1)
    generator, drawn = torch.Generator().manual_seed(0), sampled_tuples(heads)
    tuples = []
    for key in call.keys:
        where = torch.rand(heads, drawn, generator=generator).to(key.device)
        tuples.append((where * key.shape[1]).long().clamp(max=max(key.shape[1] - 1, 0)))
    parts = [SamplePart(analysis, queries, tuples)]
    return [*parts, *_first_queries(analysis)] if analysis.shape.is_causal else parts


def _first_queries(analysis: Analysis) -> list[SamplePart]:
    """The sample part of the first queries, which attend few enough tuples to list all; no part if there are none."""
    call = analysis.call
    heads, length, _ = call.query.shape
    sets, device, offset = len(call.keys), call.query.device, call.positions.offset
    most = min(sampled_queries(heads), round(sampled_tuples(heads) ** (1 / sets) - 0.5))
    first, last = max(-offset, 0), min(most - offset, length)
    if last <= first or 0 in call.key_lengths:
        return []
    at = torch.arange(most, device=device)
    tokens = torch.cartesian_prod(*[at] * sets).reshape(-1, sets)
    queries = torch.arange(first, last, device=device)
    attended = (tokens.amax(1) <= (queries + offset).unsqueeze(1)).expand(heads, -1, -1)
    tuples = []
    for m, key in enumerate(call.keys):
        there = tokens[:, m] < key.shape[1]
        index = tokens[:, m].clamp(max=key.shape[1] - 1).expand(heads, -1)
        seen = there if not call.masks else there & torch.gather(call.masks[m], 1, index)
        attended = attended & (seen if seen.dim() == 1 else seen.unsqueeze(1))
        tuples.append(index)
    return [SamplePart(analysis, queries.expand(heads, -1), tuples, attended)]


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """The rows `index` (H, n) of tokens (H, L, d), of shape (H, n, d)."""
    return torch.gather(x, 1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))
