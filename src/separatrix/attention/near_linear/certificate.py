r"""A bound on the error of an output that holds for the very input it was computed from.

Write A_t = exp(s_t) over the key tuples t that a query attends, A~_t = P(s_t), E >= sum_t |A~_t - A_t|, and let
N~, D~ be the numerator and denominator as computed, within rho |v|_max and rho of sum_t A~_t v_t and sum_t A~_t. The
exact output o is an average of the v_t, so sum_t A_t (v_t - o) = 0 and

    D~ o - N~ = sum_t (A_t - A~_t)(v_t - o) + (D~ - sum_t A~_t) o + (sum_t A~_t v_t - N~)
    |N~ / D~ - o| <= (E (max v - min v) + 2 rho |v|_max) / D~,

Lemmas D.5 and D.6 of Alman and Song in sharp form: sums in place of maxima, and no assumption on D. What E is:

- total-degree sets: |exp(s) - P(s)| <= s^m f(R) for |s| <= R (see `remainder`), so E = f(R) sum_t s_t^m, and the sum
  is a value of level m of the expansion itself, within its own rounding;
- scores s' in place of s, within eta of them: E grows by (e^eta - 1) sum_t exp(s'_t) <= (e^eta - 1) (D~ + E + rho);
- other sets: see `near_linear.approximation.greedy`.

Rounding: a sum of products errs by at most gamma times the sum of magnitudes (see `arithmetic.rounding`), and the
magnitudes sum to at most (number of tuples) * sum_p |a_p| R^p, because R bounds scale sum_l |q_l k_1,l ...| too.

The bounds themselves are computed in float64, rounded to nearest, and multiplied by 1 + 2^-30 (or by more: 1.01 where a
percent does not matter). That suffices: apart from the differences below they are sums, products, quotients and powers
of numbers that are not negative, in which relative errors never grow by cancellation, so that after n operations, one
behind the other, what is computed is at least (1 - 2^-53)^n (1 - 2^-50)^m of what is meant, m of them exponentials or
powers; n and m are below d + degree + 1000, and 2^-30 is more than 2^22 errors of 2^-53. Numbers that underflow are
added as constants far above what is lost. There are three differences, each taken so that it errs to the safe side:
max v - min v, to which four units of |v|_max for each value set are added; D~ - E - rho, for which D~ is first made
smaller by 2^-40 of itself, far more than the two units of D~ that the difference can err by; and 1 - n u in gamma,
which is at least 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.host import number
from separatrix.attention.bounds import Piece, finite_extremes, pieces, token_norms
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.remainder import Polynomial, taylor
from separatrix.attention.near_linear.approximation.rotation import derivative_drift
from separatrix.attention.near_linear.chunks import PIECE
from separatrix.attention.near_linear.gradient_certificate import (
    GradientCertificate,
    Weights,
    certify_gradient,
    reaches,
)
from separatrix.attention.near_linear.sums import Expansion, Sums

_SLACK = 1 + 2.0**-30
"""Covers the rounding of the bounds themselves, as shown above."""


@dataclass(frozen=True)
class Certificate:
    """|output - exact| <= total in every entry; `per_query` (..., L_q) is the same query by query.

    `truncation` is the polynomial's part and `rounding` that of floating point, each its largest over the queries.
    `lse` bounds the error of the log-sum-exp. `gradient` bounds the errors of gradients that are taken through the
    output, and is None where no input of the call requires a gradient.
    """

    truncation: float
    rounding: float
    total: float
    lse: float
    per_query: Tensor = field(repr=False)
    gradient: GradientCertificate | None = None


SMALLEST_SCALE = {torch.float32: 2.0**-60, torch.float64: 2.0**-900}
"""From this scale of the values on, what underflows is below 2^-60 of any rounding, even summed over 2^30 tokens."""


@dataclass(frozen=True)
class ValueRange:
    """For each head and column: the largest |v_t| and max v_t - min v_t over products of the sets' values, (H, d_v).

    `others[m]` (H,) is the largest product of the magnitudes of all value sets but set m, over the columns.

    `low` and `high` are logarithms to base 2: no product of the largest magnitudes of some of a head's value sets,
    zeros aside, is below the one, and no sum of such products over tuples above the other.
    """

    magnitude: Tensor
    width: Tensor
    others: tuple[Tensor, ...]
    low: float
    high: float

    @cached_property
    def widest(self) -> Tensor:
        """The largest width of a head's columns, (H, 1)."""
        return self.width.amax(1, keepdim=True)

    @cached_property
    def largest(self) -> Tensor:
        """The largest magnitude in a head's columns, (H, 1)."""
        return self.magnitude.amax(1, keepdim=True)

    def in_range(self, dtype: torch.dtype) -> bool:
        """Whether nothing overflows, and the absolute errors of subnormal numbers are negligible."""
        return self.low >= math.log2(SMALLEST_SCALE[dtype]) and self.high <= math.log2(torch.finfo(dtype).max) - 2


def value_range(call: Call) -> ValueRange:
    """From the smallest and the largest value of each set: the extremes of a product are products of extremes."""
    heads, _, d_v = call.values[0].shape
    low = high = torch.ones(heads, d_v, dtype=torch.float64, device=call.query.device)
    lows = highs = torch.zeros(heads, dtype=torch.float64, device=call.query.device)
    magnitudes, varied = [], torch.zeros(heads, d_v, dtype=torch.bool, device=call.query.device)
    for m, value in enumerate(call.values):
        least, most = finite_extremes(f"values[{m}]", value, call.masks[m] if call.masks else None)
        ends = torch.stack([low * least, low * most, high * least, high * most])
        low, high = ends.amin(0), ends.amax(0)
        magnitudes.append(torch.maximum(least.abs(), most.abs()))
        varied = varied | (least < most)
        logs = torch.log2(magnitudes[m].amax(1))
        logs = logs.masked_fill(torch.isneginf(logs), 0.0)
        lows, highs = lows + logs.clamp(max=0.0), highs + logs.clamp(min=0.0) + math.log2(max(value.shape[1], 1))
    range_ = (number(lows.min()), number(highs.max())) if heads else (0.0, 0.0)
    magnitude = torch.maximum(low.abs(), high.abs()) * _SLACK
    width = (high - low) * _SLACK + 4 * len(magnitudes) * 2.0**-53 * magnitude * varied
    return ValueRange(magnitude, width, tuple(_without(m, magnitudes) for m in range(len(magnitudes))), *range_)


def _without(m: int, magnitudes: list[Tensor]) -> Tensor:
    """The largest over the columns of the product of all magnitudes (H, d_v) but those of set m, (H,)."""
    product = torch.ones_like(magnitudes[m])
    for other, magnitude in enumerate(magnitudes):
        if other != m:
            product = product * magnitude
    return product.amax(1) * _SLACK


def key_norms(call: Call, frame: Frame) -> Tensor:
    """prod_m max_j ||k_m,j||_k (H,): what the query's l_k norm is multiplied with in Hoelder's bound."""
    total = torch.ones(call.query.shape[0], dtype=torch.float64, device=call.query.device)
    for m, key in enumerate(call.keys):
        mask = call.masks[m] if call.masks else None
        found = token_norms(key, call.order, frame.factors[m + 1], mask) if frame.only_scales else None
        if found is not None:
            total = total * (found.largest + frame.width * 2.0**-1000) ** (1 / call.order)
            continue
        largest = torch.zeros_like(total)
        for start, stop in _pieces(4 * key.shape[0] * frame.width, key.shape[1]):
            mask = call.masks[m][:, start:stop] if call.masks else None
            x = frame.coordinates(key[:, start:stop], m + 1, mask).to(torch.float64)
            largest = torch.maximum(largest, _power_sum(x, call.order).amax(1))
        total = total * largest ** (1 / call.order)
    return total


def _power_sum(x: Tensor, k: int) -> Tensor:
    """sum_l |x_l|^k of (H, d', c), from above: what can underflow in a power is added."""
    return _power(x.abs(), k).sum(1) + x.shape[1] * 2.0**-1000


def query_radii(call: Call, frame: Frame, norms: Tensor) -> Tensor:
    """R_i (H, L_q) >= |scale| sum_l |q_il k_1,l ...| for all tuples: the smaller of the amplitudes' and Hoelder's."""
    amplitude = torch.ones_like(frame.largest[0])
    for largest in frame.largest[1:]:
        amplitude = amplitude * largest
    # Coordinates in float32 are rounded once more than the scores they stand for.
    slack = _SLACK * (1 + (call.order + 2) * torch.finfo(frame.dtype).eps)
    if frame.only_scales:
        found = token_norms(call.query, call.order, frame.factors[0] * call.scale, None, amplitude)
        if found is not None and found.powers is not None and found.weighted is not None:
            by_hoelder = (found.powers + frame.width * 2.0**-1000) ** (1 / call.order) * norms.unsqueeze(-1)
            return torch.minimum(found.weighted, by_hoelder).mul_(slack)
    radii = call.query.new_empty(call.query.shape[:2], dtype=torch.float64)
    for start, stop in _pieces(4 * call.query.shape[0] * frame.width, call.query.shape[1]):
        x = frame.coordinates(call.query[:, start:stop], 0).to(torch.float64)
        by_amplitude = (x.abs() * amplitude.unsqueeze(-1)).sum(1)
        by_hoelder = _power_sum(x, call.order) ** (1 / call.order) * norms.unsqueeze(-1)
        radii[:, start:stop] = torch.minimum(by_amplitude, by_hoelder)
    return radii * slack


def certify(
    call: Call,
    expansion: Expansion,
    polynomial: Polynomial | None,
    sums: Sums,
    values: ValueRange,
    radii: Tensor,
    tuples: Tensor,
    gamma: float,
    outside: Tensor | None,
    drift: Tensor | None,
    gradient_gamma: float | None,
    copies: int = 1,
) -> Certificate:
    """The certificate of computed sums; `tuples` (H, L_q), or (H, 1) if all are alike, counts what each query attends.

    `polynomial` belongs to a total-degree set; for any other it is None and `outside` is E. `drift` (H, L_q) bounds
    |s' - s| where the scores s' expanded are not quite the given ones. `gamma` is the relative error of the sums, and
    `gradient_gamma` that of the sums of the backward pass, None where there will be none; up to `copies` heads share a
    tensor.
    """
    underflow = _underflow(expansion, polynomial, values)
    width, largest = values.widest, values.largest
    out = torch.finfo(sums.output.dtype)
    per_query = torch.empty_like(sums.denominator)
    weights = None
    if gradient_gamma is not None:
        scores, shares, *rounded = (torch.empty_like(per_query) for _ in range(4))
        weights = Weights(scores, shares, per_query, *rounded)
    worst = [0.0, 0.0, 0.0]
    for start, stop in _pieces(16 * per_query.shape[0], per_query.shape[1]):
        here = (slice(None), slice(start, stop))
        R, D = radii[here], sums.denominator[here]
        N = (tuples if tuples.shape[1] == 1 else tuples[here]).to(torch.float64)
        lost = underflow.total(N)
        power = torch.zeros_like(R)
        if polynomial is None:
            assert outside is not None
            E, magnitude = outside[here], torch.exp(R)
        else:
            most = N * _power(R, polynomial.moment)
            power = torch.minimum(sums.moment[here] + (gamma * most + lost), most).clamp_(min=0.0)
            E = polynomial.factors(R) * power
            magnitude = polynomial.magnitude(R)
        rho = gamma * N * magnitude + lost
        moved = None if drift is None else torch.expm1(drift[here]) * (D + E + rho) * _SLACK
        E = E if moved is None else E + moved
        empty = N == 0
        left = D * (1 - 2.0**-40) - E - rho
        proved = ((left > 0) & torch.isfinite(D)) | empty
        D = D.masked_fill(empty, math.inf)
        truncation = (E * width / D * _SLACK).masked_fill(~proved, math.inf)
        output = sums.output[here].abs().amax(-1).to(torch.float64)
        rounding = (2 * rho * largest / D + 2.0**-52 * largest) * _SLACK + 1.01 * (out.eps / 2) * output
        rounding = rounding + out.smallest_normal * out.eps / 2
        lse = ((E + rho) / left * _SLACK).masked_fill(~proved, math.inf).masked_fill(empty, 0.0)
        per_query[here] = truncation + rounding
        worst = [max(before, _largest(now)) for before, now in zip(worst, (truncation, rounding, lse), strict=True)]
        if weights is not None and gradient_gamma is not None:
            assert polynomial is not None, "a set that is not of total degree has no derivative"
            E_slope = polynomial.derivative_error(R, power, N)
            E_slope = E_slope if moved is None else E_slope + moved
            share, lost = gradient_gamma * N / D, lost / D
            for into, found in (
                (weights.scores, (E_slope + E + rho) / D),
                (weights.values, (2 * E + rho) / D),
                (weights.score_rounding, share * polynomial.derivative_magnitude(R) + lost * polynomial.degree),
                (weights.value_rounding, share * magnitude + lost),
            ):
                into[here] = found.masked_fill(~proved, math.inf)
    gradient = None
    if weights is not None:
        shifts = derivative_drift(call, expansion.frame)
        gradient = certify_gradient(
            weights, reaches(expansion.frame), shifts, width, largest, values.others, sums.output.dtype, copies
        )
        if expansion.frame.shift is not None:  # the part subtracted with the mean errs as much
            gradient = replace(gradient, keys=tuple(2 * error for error in gradient.keys))
    return Certificate(worst[0], worst[1], _largest(per_query), worst[2], per_query, gradient)


class _Underflow(NamedTuple):
    """Bounds on what the sums of a query lose by underflow, (H, 1): for each tuple, and once for all of them."""

    each: Tensor
    once: Tensor

    def total(self, tuples: Tensor) -> Tensor:
        return self.each * tuples + self.once


def _underflow(expansion: Expansion, polynomial: Polynomial | None, values: ValueRange) -> _Underflow:
    r"""A bound on what underflow takes from sum_t P(s_t) v_t, relative to the largest value.

    A product that underflows loses at most t, the smallest normal number, and what comes after it multiplies the loss
    by factors of which those above 1 matter. Let b_ml be the largest magnitude of coordinate l in set m, and b+ the
    larger of b and 1. In the monomials of keys and queries there are less than 2 k g products, and the coefficients
    are still to come, so that a tuple loses at most

        2 k g t sum_alpha |c_alpha| prod_l (prod_m b+_ml)^alpha_l,

    the polynomial's sum of magnitudes at sum_l prod_m b+_ml. States times coefficients are rounded to the type before
    they meet the monomials of a query, of which none is above (max_l b+_0l)^g: that loses at most t times the rank
    times this, once for all tuples. Values below 1 make the loss relative to them larger.
    """
    frame, degree = expansion.frame, expansion.index_set.degree
    above = [x.clamp(min=1.0) for x in frame.largest]
    products = torch.stack(above).prod(0).sum(-1, keepdim=True)
    magnitude = (polynomial or taylor(degree)).magnitude(products)
    query = above[0].amax(-1, keepdim=True) if above[0].shape[-1] else torch.ones_like(products)
    unit = 4 * torch.finfo(expansion.dtype).tiny * 2.0 ** -min(values.low, 0.0)
    each = unit * 2 * len(above) * max(degree, 1) * magnitude
    once = unit * expansion.index_set.rank * torch.exp(degree * torch.log(query) + 2.0**-20)
    return _Underflow(each, once)


def _pieces(rows: int, length: int) -> Iterator[Piece]:
    """Cut `length` columns so that what `rows` of them hold at once is some `PIECE` entries."""
    return pieces(length, max(PIECE // max(rows, 1), 1))


def _power(x: Tensor, n: int) -> Tensor:
    """x^n by products: `pow` takes many times as long."""
    if n == 0:
        return torch.ones_like(x)
    power = x
    for _ in range(n - 1):
        power = power * x
    return power


def _largest(x: Tensor) -> float:
    return number(x.max()) if x.numel() else 0.0
