r"""A bound on the error of an output, for the input from which the output was computed.

Write A_t = exp(s_t) for the key tuples t that a query attends, A~_t = P(s_t), and E >= sum_t |A~_t - A_t|, and let N~,
D~ be the computed numerator and denominator, within rho |v|_max and rho of sum_t A~_t v_t and sum_t A~_t. The exact
output o is an average of the v_t, so sum_t A_t (v_t - o) = 0 and

    D~ o - N~ = sum_t (A_t - A~_t)(v_t - o) + (D~ - sum_t A~_t) o + (sum_t A~_t v_t - N~)
    |N~ / D~ - o| <= (E (max v - min v) + 2 rho |v|_max) / D~,

which are Lemmas D.5 and D.6 of Alman and Song in sharp form: with sums instead of maxima, and without an assumption on
D. What E is:

- total-degree sets: |exp(s) - P(s)| <= s^m f(R) for |s| <= R (see `remainder`), so E = f(R) sum_t s_t^m, and the sum
  is the level m of the expansion itself, up to its rounding;
- scores s' in place of s, within eta of s: E grows by (e^eta - 1) sum_t exp(s'_t) <= (e^eta - 1) (D~ + E + rho);
- polynomials with |P(s) - exp(s)| <= e exp(s): E = e / (1 - e) (D~ + rho), and the first term on the right is at most
  tau D~ (max v - min v) with tau the total variation between the weights of P and of exp;
- other sets: see `near_linear.approximation.greedy`.

Where a run has squared deviations of the values (see `analysis`), the range max v - min v is replaced by what they
prove: with |exp(s) - P(s)| <= s^m f, squares u_t >= (v_t - c)^2 and e the bound by the range,

    sum_t |A_t - A~_t| |v_t - o| <= f (sqrt(M V) + (|o~ - c| + e) M),    M = sum_t s_t^m,    V = sum_t s_t^m u_t.

Rounding: the error of a sum of products is at most gamma times the sum of magnitudes (see `arithmetic.rounding`), and
the magnitudes sum to at most (number of tuples) * sum_p |a_p| R^p, because R bounds scale sum_l |q_l k_1,l ...| as
well.

The bounds themselves are computed in float64, rounded to nearest, and multiplied by 1 + 2^-30 (or by more: 1.01 where a
percent does not matter). That suffices: apart from the differences below, the bounds are sums, products, quotients and
powers of nonnegative numbers, in which relative errors never grow by cancellation. So after n successive operations, m
of them exponentials or powers, the computed number is at least (1 - 2^-53)^n (1 - 2^-50)^m times the exact one; n and m
are below d + degree + 1000, and 2^-30 is more than 2^22 errors of 2^-53. For numbers that underflow, constants far
above the possible error are added. There are three differences, each of which is computed so that its error is on the
safe side: max v - min v, to which four units of |v|_max are added for each value set; D~ - E - rho, for which D~ is
first reduced by 2^-40 of itself, far more than the two units of D~ by which the difference can be wrong; and 1 - n u in
gamma, which is at least 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.bounds import SLACK, power
from separatrix.attention.call import Call
from separatrix.attention.near_linear.analysis import (
    LARGEST_SQUARE,
    Analysis,
    gamma,
    gradient_gamma,
    pieces_in_memory,
)
from separatrix.attention.near_linear.approximation.coordinates import Frame, derivative_drift, reaches
from separatrix.attention.near_linear.approximation.greedy import greedy_error
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.approximation.remainder import taylor
from separatrix.attention.near_linear.backend import backend_of
from separatrix.attention.near_linear.gradient_certificate import (
    GradientCertificate,
    Weights,
    certify_gradient,
)
from separatrix.attention.near_linear.run import PolynomialRun


@dataclass(frozen=True)
class Certificate:
    """|output - exact| <= total in every entry; `per_query` (..., L_q) is the bound for each query.

    `truncation` is the error of the polynomial and `rounding` the error of floating-point arithmetic, each the maximum
    over the queries. `lse` bounds the error of the log-sum-exp. `gradient` bounds the errors of gradients that are
    computed through the output; None if no input of the call requires a gradient.
    """

    truncation: float
    rounding: float
    total: float
    lse: float
    per_query: Tensor = field(repr=False)
    gradient: GradientCertificate | None = None


def certify(analysis: Analysis, run: PolynomialRun) -> Certificate:
    """The certificate of the results of a run for the call of an analysis."""
    call, expansion, sums = run.call, run.expansion, run.sums
    index_set, polynomial = run.recipe.index_set, run.recipe.polynomial
    values, radii, drift = analysis.values, analysis.radii, analysis.drift
    sizes = (index_set.degree, index_set.rank, expansion.dtype)
    if expansion.weighted:
        analysis = replace(analysis, backend=backend_of(call, expansion.weighted))
    relative, outside = gamma(analysis, *sizes, expansion.index_set.rank), None
    if run.recipe.key_powers is not None:
        outside = greedy_error(call.query, analysis.frame, index_set.alphas, analysis.amplitudes, run.recipe.key_powers)
    backward_relative = gradient_gamma(analysis, *sizes) if analysis.differentiable else None
    tuples = _attended_tuples(call)
    frame, magnitude_of = expansion.frame, (polynomial or taylor(index_set.degree)).magnitude
    underflow = _underflow(frame, index_set, magnitude_of, values.low)
    level, away = None, run.deviation
    if expansion.moment is not None:
        whole, exponent = expansion.index_set, expansion.moment
        of_rounding = gamma(analysis, whole.degree, whole.rank, expansion.dtype)
        level = _Level(exponent, of_rounding, _underflow(frame, whole, lambda x: power(x, exponent), 0.0))
    width, largest = values.widest, values.largest
    out = torch.finfo(sums.output.dtype)
    per_query = torch.empty_like(sums.denominator)
    weights = None
    if backward_relative is not None:
        scores, shares, *rounded = (torch.empty_like(per_query) for _ in range(4))
        weights = Weights(scores, shares, per_query, *rounded)
    worst = per_query.new_zeros(4)
    for start, stop in pieces_in_memory(16 * per_query.shape[0], per_query.shape[1]) if per_query.numel() else ():
        here = (slice(None), slice(start, stop))
        R, D = radii[here], sums.denominator[here]
        N = (tuples if tuples.shape[1] == 1 else tuples[here]).to(torch.float64)
        lost = underflow.total(N)
        moment = torch.zeros_like(R)
        if polynomial is None:
            assert outside is not None
            E, magnitude = outside[here], torch.exp(R)
            rho = relative * N * magnitude + lost
        elif polynomial.relative is not None:
            magnitude = polynomial.magnitude(R)
            rho = relative * N * magnitude + lost
            E = polynomial.relative / (1 - polynomial.relative) * (D + rho).clamp(min=0.0) * SLACK
        else:
            assert level is not None
            factors, of_level = polynomial.factors(R, analysis.radius), level.rounding(R, N)
            moment = torch.fmin(sums.moment[here] + of_level, level.most(R, N)).clamp_(min=0.0)
            E = factors * moment
            magnitude = polynomial.magnitude(R)
            rho = relative * N * magnitude + lost
        moved = None if drift is None else torch.expm1(drift[here]) * (D + E + rho) * SLACK
        by_range = E * width
        if polynomial is not None and polynomial.variation is not None:
            by_range = polynomial.variation * D * width
        weights_error = E
        E = E if moved is None else E + moved
        empty = N == 0
        left = D * (1 - 2.0**-40) - E - rho
        proved = ((left > 0) & torch.isfinite(D)) | empty
        D = D.masked_fill(empty, math.inf)
        error = by_range if moved is None else by_range + moved * width
        truncation = (error / D * SLACK).masked_fill(~proved, math.inf)
        output = sums.output[here].abs().amax(-1).to(torch.float64)
        rounding = (2 * rho * largest / D + 2.0**-52 * largest) * SLACK + 1.01 * (out.eps / 2) * output
        rounding = rounding + out.smallest_normal * out.eps / 2
        if away is not None:
            assert sums.weighted is not None
            squares = torch.fmin(sums.weighted[here] + LARGEST_SQUARE * of_level, LARGEST_SQUARE * moment).clamp_(
                min=0.0
            )
            # Roots are taken before they are multiplied: the product of two high powers may underflow.
            spread = factors * torch.sqrt(moment) * torch.sqrt(squares) * away.scale
            distance = output
            if call.order == 2:  # rounded once; at higher orders the centre is 0
                distance = away.magnitudes(sums.output[here]).amax(-1).to(torch.float64) * (1 + 2.0**-20)
            by_deviation = (spread + (distance + truncation + rounding) * weights_error) * SLACK
            error = torch.fmin(by_range, by_deviation)
            error = error if moved is None else error + moved * width
            truncation = (error / D * SLACK).masked_fill(~proved, math.inf)
        lse = ((E + rho) / left * SLACK).masked_fill(~proved, math.inf).masked_fill(empty, 0.0)
        total = per_query[here] = truncation + rounding
        worst = torch.maximum(worst, torch.stack([bound.amax() for bound in (truncation, rounding, total, lse)]))
        if weights is not None and backward_relative is not None:
            assert polynomial is not None, "a set that is not of total degree has no derivative"
            E_slope = polynomial.derivative_error(R, analysis.radius, moment, N)
            E_slope = E_slope if moved is None else E_slope + moved
            share, lost = backward_relative * N / D, lost / D
            for into, bound in (
                (weights.scores, (E_slope + E + rho) / D),
                (weights.values, (2 * E + rho) / D),
                (weights.score_rounding, share * polynomial.derivative_magnitude(R) + lost * polynomial.degree),
                (weights.value_rounding, share * magnitude + lost),
            ):
                into[here] = bound.masked_fill(~proved, math.inf)
    gradient = None
    if weights is not None:
        shifts = derivative_drift(call, expansion.frame)
        gradient = certify_gradient(
            weights, reaches(expansion.frame), shifts, width, largest, values.others, sums.output.dtype, call.copies
        )
        if expansion.frame.shift is not None:  # the gradient's mean that is subtracted has the same error
            gradient = replace(gradient, keys=tuple(2 * error for error in gradient.keys))
    worst_truncation, worst_rounding, worst_total, worst_lse = numbers(worst)
    return Certificate(worst_truncation, worst_rounding, worst_total, worst_lse, per_query, gradient)


class _Level(NamedTuple):
    """The exponent of the moment, and bounds on the rounding errors of its sums over tuples."""

    exponent: int
    relative: float
    underflow: _Underflow

    def most(self, R: Tensor, N: Tensor) -> Tensor:
        """The sum of s^exponent over N scores of size R."""
        return N * power(R, self.exponent)

    def rounding(self, R: Tensor, N: Tensor) -> Tensor:
        """A bound on the error of the computed sum, whether unweighted or with weights up to 1."""
        return self.relative * self.most(R, N) + self.underflow.total(N)


class _Underflow(NamedTuple):
    """Bounds on the underflow errors of a query's sums, (H, 1): per tuple, and once for all tuples."""

    each: Tensor
    once: Tensor

    def total(self, tuples: Tensor) -> Tensor:
        return self.each * tuples + self.once


def _underflow(frame: Frame, index_set: IndexSet, magnitude: Callable[[Tensor], Tensor], low: float) -> _Underflow:
    r"""A bound on the underflow error of sum_t P(s_t) v_t, relative to the largest value.

    A product that underflows has an error of at most t, the smallest normal number, which later factors multiply; only
    those above 1 matter. Let b_ml be the largest magnitude of coordinate l in set m, and b+ the larger of b and 1. The
    monomials of keys and queries have less than 2 k g products, and the coefficients come later, so that the error of a
    tuple is at most

        2 k g t sum_alpha |c_alpha| prod_l (prod_m b+_ml)^alpha_l,

    whose sum is the polynomial's sum of magnitudes, `magnitude`, at sum_l prod_m b+_ml. States times coefficients are
    rounded to the dtype before they are multiplied by the monomials of a query, none of which exceeds (max_l b+_0l)^g:
    the error of this is at most t times the rank times that power, once for all tuples. Values below 1 increase the
    error relative to them: `low` is the logarithm to base 2 of the smallest product of largest magnitudes.
    """
    degree = index_set.degree
    above = [x.clamp(min=1.0) for x in frame.largest]
    products = torch.stack(above).prod(0).sum(-1, keepdim=True)
    query = above[0].amax(-1, keepdim=True) if above[0].shape[-1] else torch.ones_like(products)
    unit = 4 * torch.finfo(frame.dtype).tiny * 2.0 ** -min(low, 0.0)
    each = unit * 2 * len(above) * max(degree, 1) * magnitude(products)
    once = unit * index_set.rank * torch.exp(degree * torch.log(query) + 2.0**-20)
    return _Underflow(each, once)


def _attended_tuples(call: Call) -> Tensor:
    """The number of tuples that each query attends, (H, L_q), or (H, 1) if it is the same for all queries of a head."""
    if not call.positions.is_causal:
        tuples = torch.ones(call.query.shape[0], dtype=torch.float64, device=call.query.device)
        for count in call.counts():
            tuples = tuples * count
        return tuples.unsqueeze(1)
    heads, length, _ = call.query.shape
    total = torch.ones(heads, length, dtype=torch.float64, device=call.query.device)
    here = torch.arange(length, device=call.query.device) + call.positions.offset + 1
    for m, key in enumerate(call.keys):
        seen = call.masks[m] if call.masks else torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        counts = torch.nn.functional.pad(seen.cumsum(1), (1, 0))
        total = total * counts[:, here.clamp(0, key.shape[1])]
    return total
