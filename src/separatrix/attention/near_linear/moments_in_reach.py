r"""Which polynomials of a degree could keep a tolerance: lower bounds on their forecasts, without making them.

For a degree g there is a polynomial for every even moment m (see `remainder`), up to 60 of them, and to make one and to
forecast its error takes a millisecond. Here all are bounded from below at once, at two queries, from the Chebyshev
coefficients |c_j| that each leaves out. R is the bound on the scores of a query.

Rounding is proportional to M = sum_p |a_p| R^p. The coefficients below m are Taylor's, so M >= sum_{p<m} R^p / p!; and
M >= P(R) >= exp(R) - R^m factor, in which `factor` is at most what the tolerance leaves for truncation, if the
polynomial keeps it. The same holds of P' in place of P.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from separatrix.attention.arithmetic.host import number, numbers
from separatrix.attention.near_linear.analysis import gamma, gradient_gamma
from separatrix.attention.near_linear.approximation.coordinates import reaches
from separatrix.attention.near_linear.approximation.remainder import least_chebyshev, taylor_factor_of_number
from separatrix.attention.near_linear.forecast import Forecast, SampledQuery

Floats = npt.NDArray[np.float64]
_LESS = 0.99
"""By what the bounds are multiplied, which covers their own rounding."""


class _Errors(NamedTuple):
    """The errors of polynomials P and of P' at a query, summed over tuples, and the sums of their magnitudes."""

    truncation: Floats
    slope: Floats
    magnitude: Floats
    slope_magnitude: Floats


def moments_in_reach(
    forecast: Forecast, degree: int, rank: int, target: float, output_only: bool = False
) -> tuple[bool, list[int]]:
    """Whether Taylor's polynomial of a degree may keep the target, and the moments of Chebyshev's that may.

    All others are certain to have a forecast above the target. Chebyshev's are those of even moments below the degree,
    and there are none where scores are so small that none can win.
    """
    analysis = forecast.analysis
    moments = np.arange(0, degree, 2) if analysis.radius >= 0.25 else np.arange(0)
    if not forecast.sampled_radii.numel():
        return True, moments.tolist()
    roundings = gamma(analysis, degree, rank, torch.float64), gradient_gamma(analysis, degree, rank, torch.float64)
    with_gradient = analysis.differentiable and not output_only
    by_taylor, kept = True, np.ones(len(moments), dtype=bool)
    for query in _queries(forecast):
        of_taylor = _of_taylor(forecast, query, degree)
        by_taylor = by_taylor and bool((_least(query, of_taylor, roundings, with_gradient) <= target)[0])
        of_chebyshev = _of_chebyshev(forecast, query, degree, moments, target)
        kept &= _least(query, of_chebyshev, roundings, with_gradient) <= target
    return by_taylor, moments[kept].tolist()


def _queries(forecast: Forecast) -> list[SampledQuery]:
    """The query with the largest bound on its scores, and the one whose weights are rounded most."""
    analysis = forecast.analysis
    if not forecast.extremes:
        rounded = torch.exp(forecast.sampled_radii) * forecast.mean_power(0) * analysis.values.largest
        reach = torch.stack(reaches(analysis.frame)).amax(0) * (1 if analysis.frame.shift is None else 2)
        others = torch.stack(analysis.values.others).amax(0)
        for at in {int(number(x.argmax())) for x in (forecast.sampled_radii, rounded)}:
            head, where = divmod(at, rounded.shape[1])
            place = (forecast.sampled_radii[head, where], forecast.mean_power(0)[head, where])
            of_head = (analysis.values.widest[head, 0], analysis.values.largest[head, 0], reach[head], others[head])
            forecast.extremes.append(SampledQuery(head, where, *numbers(torch.stack([*place, *of_head]))))
    return forecast.extremes


def _powers(forecast: Forecast, query: SampledQuery, most: int) -> Floats:
    """`mean_power` at a query for all even moments up to `most`."""
    known = query.powers
    known += [number(forecast.mean_power(m)[query.head, query.where]) for m in range(2 * len(known), most + 1, 2)]
    return np.array(known[: most // 2 + 1])


def _terms(radius: float, degree: int) -> Floats:
    """R^p / p! for p up to a degree."""
    return np.cumprod([1.0, *(radius / p for p in range(1, degree + 1))], dtype=np.float64)


def _of_taylor(forecast: Forecast, query: SampledQuery, degree: int) -> _Errors:
    """The errors of Taylor's polynomial, which are known."""
    moment, terms = degree - degree % 2, _terms(query.radius, degree)
    power = _powers(forecast, query, moment)[-1:]
    factors = [taylor_factor_of_number(g, moment, query.radius) for g in (degree, degree - 1)]
    return _Errors(factors[0] * power, factors[1] * power, terms.sum(keepdims=True), terms[:-1].sum(keepdims=True))


def _of_chebyshev(
    forecast: Forecast, query: SampledQuery, degree: int, moments: npt.NDArray[np.int64], target: float
) -> _Errors:
    """Lower bounds on the errors of Chebyshev's polynomials that keep the target."""
    powers = _powers(forecast, query, degree - 1)[: len(moments)]
    least = np.array([least_chebyshev(degree, m, forecast.analysis.radius) for m in moments.tolist()]).reshape(-1, 2)
    R, e_R = query.radius, math.exp(query.radius)
    below = np.concatenate([[0.0, 0.0], np.cumsum(_terms(R, degree))])  # below[m + 1] sums R^p / p! over p < m
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # The largest factor and slope that keep the target; where any does, infinity or not a number.
        factor, slope = target / (query.width * powers), target / (query.reach * query.width * powers)
        near = e_R - R**moments * factor
        near_slope = e_R - R**moments * slope - moments * R ** (moments - 1.0) * factor
    magnitude, slope_magnitude = np.fmax(below[moments + 1], near), np.fmax(below[moments], near_slope)
    return _Errors(least[:, 0] * powers, least[:, 1] * powers, magnitude, slope_magnitude)


def _least(query: SampledQuery, errors: _Errors, roundings: tuple[float, float], with_gradient: bool) -> Floats:
    """A lower bound on the forecasts of polynomials with these errors at a query."""
    output = errors.truncation * query.width + 2 * roundings[0] * query.inverse * errors.magnitude * query.largest
    if not with_gradient:
        return _LESS * output
    rounding = roundings[1] * query.inverse
    scores = query.width * (errors.slope + errors.truncation) + output
    scores += 2 * query.largest * rounding * errors.slope_magnitude
    values = 2 * errors.truncation + rounding * errors.magnitude
    return _LESS * np.fmax(output, np.fmax(query.reach * scores, query.others * values))
