r"""A forecast of the certified error: sums over all tuples are replaced by those over a sample with a fixed seed.

For a degree g there is a Chebyshev polynomial for every even moment m below it (see `remainder`), up to 60 of them, and
computing one takes a millisecond. `Forecast.moments_in_reach` bounds the forecasts of all of them from below at once,
from the Chebyshev coefficients |c_j| that each leaves out, so that few are made. R is the bound on the scores of a
query. Rounding is proportional to M = sum_p |a_p| R^p. The coefficients below m are Taylor's, so
M >= sum_{p<m} R^p / p!; and M >= P(R) >= exp(R) - R^m factor, in which `factor` is at most what the tolerance leaves
for truncation, if the polynomial keeps it. The same holds of P' in place of P.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, numbers
from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.near_linear.analysis import (
    Analysis,
    Deviation,
    amplitudes,
    deviation,
    gamma,
    gradient_gamma,
    relative_error,
)
from separatrix.attention.near_linear.approximation.coordinates import reaches
from separatrix.attention.near_linear.approximation.greedy import greedy_error, key_powers
from separatrix.attention.near_linear.approximation.monomials import Array
from separatrix.attention.near_linear.approximation.remainder import Polynomial, least_chebyshev
from separatrix.attention.near_linear.sample import ScoreSample, draw_samples

_LESS = 0.99
"""By what lower bounds on forecasts are multiplied, which covers their own rounding."""
_SMALL_RADIUS = 0.25
"""Up to this bound on the scores no Chebyshev polynomial is better than Taylor's."""


class Forecast:
    """Forecasts the certified error of polynomials for an analysed call.

    It caches the sample of scores and derived results while a plan is searched.

    Args:
        analysis: The analysis of the call.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._moments: dict[int, Tensor] = {}
        self._spreads: dict[tuple[int, int], Tensor] = {}
        self._last: tuple[Polynomial, int, tuple[Tensor, Tensor, Tensor]] | None = None

    @cached_property
    def samples(self) -> list[ScoreSample]:
        return draw_samples(self.analysis, self._deviation)

    @cached_property
    def sampled(self) -> Tensor:
        """Indices (H, queries) of the queries in the samples."""
        return torch.cat([sample.queries for sample in self.samples], 1)

    @cached_property
    def sampled_radii(self) -> Tensor:
        return torch.gather(self.analysis.radii, 1, self.sampled)

    @cached_property
    def _heaviest(self) -> float:
        """The largest value over the mean of exp(s), for the query in the sample where that is largest."""
        return _largest(self.mean_power(0) * self.analysis.values.largest)

    @cached_property
    def key_powers(self) -> dict[int, Tensor]:
        """Sums of powers of the keys, for the error of an index set that is not of total degree."""
        return key_powers(self.analysis.call, self.analysis.frame)

    def mean_power(self, moment: int) -> Tensor:
        """The mean of s^moment, for an even moment, divided by the mean of exp(s), (H, queries), in the samples."""
        if moment not in self._moments:
            self._moments[moment] = torch.cat([sample.mean_power(moment) for sample in self.samples], 1)
        return self._moments[moment]

    @cached_property
    def _deviation(self) -> Deviation:
        return deviation(self.analysis.call, self.analysis.values)

    @cached_property
    def _distance(self) -> Tensor:
        """How far the outputs of the samples are from the centre of the values, (H, queries)."""
        output = torch.cat([sample.output() for sample in self.samples], 1)
        return (output - self._deviation.centre.unsqueeze(1)).abs().amax(-1)

    def spread(self, moment: int, columns: int) -> Tensor:
        """Forecast sum_t s_t^moment |v_t - o| over sum_t exp(s_t), as the certificate bounds it, (H, queries)."""
        if (moment, columns) not in self._spreads:
            power = self.mean_power(moment)
            squares = torch.cat([sample.weighted_squares(moment, columns) for sample in self.samples], 1)
            spread = torch.sqrt(power * squares) * self._deviation.scale + power * self._distance
            self._spreads[moment, columns] = torch.minimum(spread, power * self.analysis.values.widest)
        return self._spreads[moment, columns]

    def forget_samples(self) -> None:
        """Free the memory of the samples before a run; they are drawn again if needed."""
        self.__dict__.pop("samples", None)

    def error(
        self,
        polynomial: Polynomial,
        rank: int,
        dtype: torch.dtype,
        output_only: bool = False,
        columns: int = 0,
    ) -> float:
        """Forecast the certificate's total for a total-degree set, with columns of squared deviations or without.

        If gradients will be taken, it is the larger of the forecasts for output and gradients, unless `output_only`.
        """
        degree = polynomial.degree
        truncation, error, magnitude = self._truncation(polynomial, columns)
        output = self._output_error(error, magnitude, degree, rank, dtype)
        if output_only or not self.analysis.differentiable:
            return _largest(output)
        power = self.mean_power(polynomial.moment)
        slope = polynomial.derivative_error(self.sampled_radii, power, self.mean_power(0))
        rounding = gradient_gamma(self.analysis, degree, rank, dtype)
        slope_magnitude = polynomial.derivative_magnitude(self.sampled_radii)
        return _largest(self._gradient_error(output, truncation, magnitude, slope, slope_magnitude, rounding))

    def _truncation(self, polynomial: Polynomial, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        """The truncation errors of the weights and of the outputs, and the magnitude of the sums, in the samples.

        They are the same for all dtypes, and are cached for the most recent polynomial.
        """
        if self._last is None or self._last[:2] != (polynomial, columns):
            radii = self.sampled_radii
            if polynomial.variation is None:
                factors = polynomial.factors(radii)
                truncation = factors * self.mean_power(polynomial.moment)
            else:
                truncation = radii.new_full((), polynomial.variation)
            error = (
                factors * self.spread(polynomial.moment, columns)
                if columns
                else truncation * self.analysis.values.widest
            )
            self._last = (polynomial, columns, (truncation, error, polynomial.magnitude(radii)))
        return self._last[2]

    def greedy_error(self, alphas: Array, dtype: torch.dtype) -> float:
        """Forecast the certificate's total for an index set that is shaped by the amplitudes."""
        analysis = self.analysis
        rows = self.sampled.unsqueeze(-1).expand(-1, -1, analysis.shape.d)
        query = torch.gather(analysis.call.query, 1, rows)
        E = greedy_error(query, analysis.frame, alphas, amplitudes(analysis), self.key_powers)
        tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
        error = E / tuples * self.mean_power(0) * analysis.values.widest
        magnitude = torch.exp(self.sampled_radii)
        return _largest(self._output_error(error, magnitude, int(alphas.sum(1).max()), len(alphas), dtype))

    def least_rounding(self, degree: int, rank: int) -> float:
        """A lower bound on every forecast's rounding in float64: that of weights 1, the first coefficient."""
        analysis = self.analysis
        adds = Summing(1, 1 << 62)
        least = relative_error(analysis.shape, analysis.frame.width, degree, rank, adds, torch.float64)
        return least * self._heaviest

    def moments_in_reach(
        self, degree: int, rank: int, target: float, output_only: bool = False, columns: int = 0
    ) -> list[int]:
        """The moments of the Chebyshev polynomials of a degree that may keep the target in float64.

        All others are certain to have a forecast above the target. They are even moments below the degree; if scores
        are so small that no moment can lower the bound, there are none.
        """
        analysis, R = self.analysis, self.sampled_radii
        moments = list(range(0, degree, 2)) if analysis.radius >= _SMALL_RADIUS else []
        if not moments or not R.numel():
            return moments

        def column_of(numbers: Sequence[float]) -> Tensor:
            return torch.tensor(numbers, dtype=R.dtype, device=R.device).reshape(-1, 1, 1)

        widest = analysis.values.widest
        least = [least_chebyshev(degree, m, analysis.radius) for m in moments]
        factors, slopes = (column_of(bounds) for bounds in zip(*least, strict=True))
        if not columns:
            power = torch.stack([self.mean_power(m) for m in moments])
            allowed = target / (widest * power)  # the largest factor within the target, or infinity
            error = factors * power * widest
        else:
            power = torch.stack([self.spread(m, columns) for m in moments])
            allowed, error = target / power, factors * power
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
        """The largest derivative of a score by an entry, twice that where keys are shifted, (H, 1)."""
        doubled = 1 if self.analysis.frame.shift is None else 2
        return doubled * torch.stack(reaches(self.analysis.frame)).amax(0).unsqueeze(1)

    def _output_error(self, error: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype) -> Tensor:
        """The error of the outputs of the sample from that of truncation and from the magnitudes of the sums."""
        rounding = 2 * gamma(self.analysis, degree, rank, dtype) * magnitude * self.mean_power(0)
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
        """The largest of the errors of outputs and of gradients, from those of the sums of P and of P'."""
        values, rounded = self.analysis.values, rounding * self.mean_power(0)
        scores = values.widest * (slope + truncation) + output + 2 * values.largest * rounded * slope_magnitude
        by_values = torch.stack(values.others).amax(0).unsqueeze(1) * (2 * truncation + rounded * magnitude)
        return torch.maximum(output, torch.maximum(self._reach * scores, by_values))


def _largest(x: Tensor) -> float:
    return number(x.max()) if x.numel() else 0.0
