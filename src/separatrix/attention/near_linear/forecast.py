r"""Forecasts of certified errors, by means over a sample of the tuples, and the polynomials that keep a tolerance.

For a degree g there is a Chebyshev polynomial for every even moment m below it (see `remainder`), up to 60 of them, and
computing one takes a millisecond. `Forecast.moments_in_reach` computes lower bounds on all their forecasts at once,
from the Chebyshev coefficients |c_j| that each polynomial omits, so that few polynomials are computed. R is the bound
on the scores of a query. Rounding is proportional to M = sum_p |a_p| R^p. The coefficients below m are Taylor's, so M
>= sum_{p<m} R^p / p!; and M >= P(R) >= exp(R) - R^m factor, where `factor` is at most the part of the tolerance for
truncation, if the polynomial satisfies it. The same holds of P' in place of P.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number, number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.near_linear.analysis import (
    Analysis,
    amplitudes,
    gamma,
    gradient_gamma,
    in_float32,
    relative_error,
)
from separatrix.attention.near_linear.approximation.coordinates import reaches
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas, greedy_error, key_powers
from separatrix.attention.near_linear.approximation.monomials import Array, downward_closed, total_degree
from separatrix.attention.near_linear.approximation.remainder import (
    Polynomial,
    chebyshev,
    least_chebyshev,
    relative_minimax,
    taylor,
    taylor_factor_of_number,
)
from separatrix.attention.near_linear.cost import (
    LARGEST_DEGREE,
    LARGEST_RANK,
    affordable_rank,
    recipe_cost,
    squares_may_pay,
)
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.sample import Sample
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, largest_relative_error

_LESS = 0.99
"""The factor of lower bounds on forecasts, which covers their own rounding."""
_SMALL_RADIUS = 0.25
"""For bounds on the scores up to this one, no Chebyshev polynomial is better than Taylor's."""


class Forecast:
    """Forecasts the certified error of polynomials for an analysed call, and searches those that keep a target.

    It caches the sample of scores and the means over it while a plan is searched.

    Args:
        analysis: The analysis of the call.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._last: tuple[Polynomial, int, tuple[Tensor, Tensor, Tensor]] | None = None

    @cached_property
    def sample(self) -> Sample:
        """The sampled queries, with means over sampled tuples."""
        return Sample(self.analysis)

    def rank(self, degree: int) -> int:
        """The rank of the polynomials of a degree."""
        return math.comb(self.analysis.frame.width + degree, degree)

    def total_degree(self, least: int, limit: float, target: float, output_only: bool) -> Recipe | None:
        """The cheapest recipe of total degree whose forecast keeps the target; None if there is none.

        Args:
            least: The lowest degree that is tried.
            limit: The longest time that degrees which are tried may take, in the unit of `cost`.
            target: The largest forecast that is allowed.
            output_only: Whether the forecast for gradients may be above the target.
        """
        shape = self.analysis.shape
        best: Recipe | None = None
        for columns in self._numbers_of_columns():
            if columns != [0] and not squares_may_pay(shape, limit):
                break
            degree = least
            while self._may_keep(degree, affordable_rank(shape, limit), target):
                if _LESS * self._least_error(degree, columns[-1]) <= target:
                    for recipe in self._recipes(degree, target, output_only, columns):
                        time = recipe_cost(shape, recipe).time
                        if best is None or time < limit:
                            best, limit = recipe, min(time, limit)
                degree += 1
        return best

    def _recipes(self, degree: int, target: float, output_only: bool, choices: Sequence[int]) -> Iterator[Recipe]:
        """The recipes of a degree that keep the target, with as few columns of squared deviations as they need."""
        for columns in choices:
            for polynomial in self._polynomials(degree, target, output_only, columns):
                recipe = self._recipe(polynomial, columns, target, output_only)
                if recipe is None:
                    continue
                yield recipe
                if polynomial.moment <= degree:
                    return
                break  # a column of squares may cost less than a moment beyond the degree

    def _numbers_of_columns(self) -> list[list[int]]:
        """The numbers of columns of squared deviations that are searched first, and then; gradients do not use them."""
        return [[0]] if self.analysis.differentiable else [[0], sorted({1, self.analysis.shape.d_v})]

    def _least_error(self, degree: int, columns: int) -> float:
        """A lower bound on the forecasts of all polynomials of a degree, from those of single queries."""
        radius = self.analysis.radius
        taylors = {polynomial.moment for polynomial in self._taylors(degree)}
        errors = []
        for moment in taylors:
            spread, bound = self.sample.largest_spread(moment, columns)
            errors.append(spread * taylor_factor_of_number(degree, moment, bound))
        for moment in range(0, degree, 2) if radius >= _SMALL_RADIUS else ():
            errors.append(self.sample.largest_spread(moment, columns)[0] * least_chebyshev(degree, moment, radius)[0])
        return min(errors)

    def relative(self, least: int, largest_rank: float, target: float) -> Recipe | None:
        """The recipe of lowest degree whose error is relative to exp and keeps the target; None if there is none."""
        widest = self.analysis.values.widest
        largest_error = largest_relative_error(target / max(number(widest.max()), target))
        degree = max(least, 1)
        while self._may_keep(degree, largest_rank, target):
            polynomial = relative_minimax(degree, self.analysis.radius, largest_error)
            if polynomial is not None and polynomial.relative is not None:
                if polynomial.relative <= largest_error:
                    return self._recipe(polynomial, 0, target, True)
                if polynomial.relative > 2 * largest_error:
                    break  # because the coefficients are rounded, which a higher degree does not change
            degree += 1
        return None

    def shaped(self, target: float, rank: int) -> Recipe | None:
        """The recipe of the smallest set shaped by the amplitudes that keeps the target, by steps of 3/4 below `rank`.

        It may pay only if some coordinates matter much less than others.
        """
        b = amplitudes(self.analysis)
        least, most, total = numbers(torch.stack([b.min(), b.max(), b.sum()]))
        if least >= 0.25 * most or total >= LARGEST_RADIUS:
            return None
        alphas = greedy_alphas(numbers(b), min(rank, 1 << 14))
        alphas = alphas[alphas.sum(1) <= LARGEST_DEGREE]
        smallest, size = 0, min(rank - 1, len(alphas)) * 3 // 4
        while size >= 1 and self.greedy_error(alphas[:size], torch.float64) <= target:
            smallest, size = size, size * 3 // 4
        if not smallest:
            return None
        index_set = downward_closed(alphas[:smallest])
        narrow = self.greedy_error(index_set.alphas, torch.float32)
        return Recipe(index_set, None, self._dtype(narrow, target), self.key_powers)

    def _may_keep(self, degree: int, largest_rank: float, target: float) -> bool:
        """Whether a degree is low enough to be tried, and rounding in float64 alone does not exceed the target."""
        rank = self.rank(degree)
        if degree > LARGEST_DEGREE or rank > largest_rank:
            return False
        return self._least_rounding(degree, rank) <= target

    def _least_rounding(self, degree: int, rank: int) -> float:
        """A lower bound on the rounding part of every forecast in float64: that of weights 1, the first coefficient."""
        shape, width = self.analysis.shape, self.analysis.frame.width
        return relative_error(shape, width, degree, rank, Summing(1, 1 << 62), torch.float64) * self._heaviest

    @cached_property
    def _share(self) -> Tensor:
        """1 over the mean of exp(s), (H, queries)."""
        return self.sample.mean_power(0)

    @cached_property
    def _heaviest(self) -> float:
        """The ratio of the largest value to the mean of exp(s), for the query in the sample for which it is largest."""
        return largest_number(self._share * self.analysis.values.largest)

    def _polynomials(self, degree: int, target: float, output_only: bool, columns: int) -> Iterator[Polynomial]:
        """The polynomials of a degree: Taylor's; Chebyshev's with even moments, unless their error exceeds the target;
        and Taylor's with moments above the degree.
        """
        inside, *beyond = self._taylors(degree)
        yield inside
        for moment in self.moments_in_reach(degree, target, output_only, columns):
            yield chebyshev(degree, moment, self.analysis.radius)
        yield from beyond

    def _taylors(self, degree: int) -> list[Polynomial]:
        """Taylor's polynomial, with a moment up to the degree and, unless there are gradients, with one above it."""
        beyond = degree % 2 and not self.analysis.differentiable and self.rank(degree + 1) <= LARGEST_RANK
        return [taylor(degree), taylor(degree, beyond=True)] if beyond else [taylor(degree)]

    def _recipe(self, polynomial: Polynomial, columns: int, target: float, output_only: bool) -> Recipe | None:
        """The recipe of a polynomial in the narrowest dtype whose forecast keeps the target; None if none does."""
        if self.error(polynomial, torch.float64, output_only, columns) > target:
            return None
        dtype = torch.float64
        if not self.analysis.shape.is_causal:  # causal sums are always in float64, see `near_linear/causal`
            dtype = self._dtype(self.error(polynomial, torch.float32, output_only, columns), target)
        index_set = total_degree(self.analysis.frame.width, polynomial.degree)
        return Recipe(index_set, polynomial, dtype, squares=columns)

    def _dtype(self, narrow: float, target: float) -> torch.dtype:
        """float32 if its forecast is within the target and nothing overflows or underflows, otherwise float64."""
        query = self.analysis.call.query
        keeps = narrow <= target and query.dtype != torch.float64 and in_float32(self.analysis)
        return torch.float32 if keeps and float32_products_are_float32(query.device.type) else torch.float64

    def error(
        self,
        polynomial: Polynomial,
        dtype: torch.dtype,
        output_only: bool = False,
        columns: int = 0,
    ) -> float:
        """Forecast the certificate's total for a total-degree set, with columns of squared deviations or without.

        If gradients will be taken, it is the larger of the forecasts for output and gradients, unless `output_only`.
        """
        degree, R = polynomial.degree, self.sample.radii
        truncation, error, magnitude = self._truncation(polynomial, columns)
        output = self._output_error(error, magnitude, degree, self.rank(degree), dtype)
        if output_only or not self.analysis.differentiable:
            return largest_number(output)
        power = self.sample.mean_power(polynomial.moment)
        slope = polynomial.derivative_error(R, power, self._share)
        rounding = gradient_gamma(self.analysis, degree, self.rank(degree), dtype)
        slope_magnitude = polynomial.derivative_magnitude(R)
        return largest_number(self._gradient_error(output, truncation, magnitude, slope, slope_magnitude, rounding))

    def _truncation(self, polynomial: Polynomial, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        """The truncation errors of the weights and of the outputs, and the magnitude of the sums, in the sample.

        They are the same for all dtypes, and are cached for the most recent polynomial.
        """
        if self._last is None or self._last[:2] != (polynomial, columns):
            R, moment = self.sample.radii, polynomial.moment
            if polynomial.relative is None:
                factors = polynomial.factors(R)
                truncation = factors * self.sample.mean_power(moment)
                error = factors * self.sample.spread(moment, columns)
            else:
                truncation = R.new_full((), polynomial.variation)  # type: ignore[arg-type]
                error = truncation * self.analysis.values.widest
            self._last = (polynomial, columns, (truncation, error, polynomial.magnitude(R)))
        return self._last[2]

    @cached_property
    def key_powers(self) -> dict[int, Tensor]:
        """Sums of powers of the keys, for the error of an index set that is not of total degree."""
        return key_powers(self.analysis.call, self.analysis.frame)

    def greedy_error(self, alphas: Array, dtype: torch.dtype) -> float:
        """Forecast the certificate's total for an index set shaped by the amplitudes."""
        analysis = self.analysis
        rows = self.sample.queries.unsqueeze(-1).expand(-1, -1, analysis.shape.d)
        query = torch.gather(analysis.call.query, 1, rows)
        E = greedy_error(query, analysis.frame, alphas, amplitudes(analysis), self.key_powers)
        tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
        error = E / tuples * self._share * analysis.values.widest
        magnitude = torch.exp(self.sample.radii)
        return largest_number(self._output_error(error, magnitude, int(alphas.sum(1).max()), len(alphas), dtype))

    def moments_in_reach(self, degree: int, target: float, output_only: bool = False, columns: int = 0) -> list[int]:
        """The moments of the Chebyshev polynomials of a degree that may satisfy the target in float64.

        All others are certain to have a forecast above the target. They are even moments below the degree; if scores
        are so small that no moment can lower the bound, there are none.
        """
        analysis, sample, R, rank = self.analysis, self.sample, self.sample.radii, self.rank(degree)
        moments = list(range(0, degree, 2)) if analysis.radius >= _SMALL_RADIUS else []
        if not moments or not R.numel():
            return moments

        def column_of(numbers: Sequence[float]) -> Tensor:
            return torch.tensor(numbers, dtype=R.dtype, device=R.device).reshape(-1, 1, 1)

        least = [least_chebyshev(degree, m, analysis.radius) for m in moments]
        factors, slopes = (column_of(bounds) for bounds in zip(*least, strict=True))
        power = torch.stack([sample.mean_power(m) for m in moments])
        spread = torch.stack([sample.spread(m, columns) for m in moments])
        allowed, error = target / spread, factors * spread  # the largest factor within the target, or infinity
        exponents = column_of(moments)
        powers, e_R = R**exponents, torch.exp(R)
        terms = torch.cumprod(torch.stack([torch.ones_like(R), *(R / p for p in range(1, degree))]), 0).cumsum(0)
        below = torch.stack([terms[m - 1] if m else torch.zeros_like(R) for m in moments])  # sums R^p / p! over p < m
        magnitude = torch.fmax(below, e_R - powers * allowed)
        output = self._output_error(error, magnitude, degree, rank, torch.float64)
        if analysis.differentiable and not output_only:
            below = torch.stack([terms[m - 2] if m > 1 else torch.zeros_like(R) for m in moments])
            near = e_R - powers * allowed / self._reach - exponents * R ** (exponents - 1) * allowed
            rounding = gradient_gamma(analysis, degree, rank, torch.float64)
            output = self._gradient_error(
                output, factors * power, magnitude, slopes * power, torch.fmax(below, near), rounding
            )
        kept = numbers(_LESS * output.amax((1, 2)) <= target)
        return [m for m, may_keep in zip(moments, kept, strict=True) if may_keep]

    @cached_property
    def _reach(self) -> Tensor:
        """The largest derivative of a score by an entry, doubled if keys are shifted, (H, 1)."""
        doubled = 1 if self.analysis.frame.shift is None else 2
        return doubled * torch.stack(reaches(self.analysis.frame)).amax(0).unsqueeze(1)

    def _output_error(self, error: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype) -> Tensor:
        """The error of the outputs of the sample, from their truncation errors and the magnitudes of the sums."""
        rounding = 2 * gamma(self.analysis, degree, rank, dtype) * magnitude * self._share
        return error + rounding * self.analysis.values.largest

    def _gradient_error(
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
        return torch.maximum(output, torch.maximum(self._reach * scores, by_values))
