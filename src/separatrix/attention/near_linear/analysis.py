r"""The analysis of a call before it is computed: bounds on its entries and scores, and coordinates for its scores.

`Deviation` bounds the distances of values from a centre; a certificate weights these distances by powers of the scores,
and uses them in place of the values' range. For any centre c and u_t >= (v_t - c)^2, Cauchy's inequality bounds the
effect of a polynomial's error on an output,

    sum_t s_t^m |v_t - c| <= sqrt(sum_t s_t^m) sqrt(sum_t s_t^m u_t),

and the last sum is that of level m of the expansion, with values u. The squares are divided by those of `scales`, so
that they are at most `LARGEST_SQUARE`, and rounded up, so that they are never too small. At order 2 the centre is the
mean of the values; beyond it is 0, because squares have to be products over the sets. See
docs/derivations/near-linear-attention.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number, number, numbers, truth
from separatrix.attention.arithmetic.rounding import Summing, expanded_gradient_sum, expanded_sum
from separatrix.attention.bounds import (
    SLACK,
    Piece,
    ValueRange,
    input_bounds,
    pieces,
    power,
    product_of,
    token_norms,
)
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import (
    Frame,
    drift,
    key_mean,
    key_shift,
    make_frame,
    rotated,
    token_mean,
)
from separatrix.attention.near_linear.backend import NearLinearBackend, backend_of, summing
from separatrix.attention.near_linear.cost import PIECE, Shape, chunk_tokens


@dataclass(frozen=True)
class Analysis:
    """Bounds on the entries and scores of a call, known before it is computed.

    Attributes:
        call: The call.
        shape: The sizes of the call.
        frame: The coordinates in which scores are expanded.
        norms: prod_m max_j ||k_m,j||_k (H,), of the keys in these coordinates.
        radii: Bounds (H, L_q) on the magnitudes of each query's scores.
        radius: The largest of the radii.
        amplitudes: b_l, the largest magnitude of coordinate l of a score's terms over the heads.
        values: The range of the products of values.
        drift: Bounds (H, L_q) on the change of scores by the change of basis; None if the basis is not changed.
        differentiable: Whether gradients will be computed.
        backend: The backend that computes the call by a polynomial.
    """

    call: Call
    shape: Shape
    frame: Frame
    norms: Tensor
    radii: Tensor
    radius: float
    amplitudes: tuple[float, ...]
    values: ValueRange
    drift: Tensor | None
    differentiable: bool
    backend: NearLinearBackend

    def entry_bound(self) -> float:
        """B: the largest magnitude in the query and the keys."""
        largest = input_bounds(self.call).largest
        return largest_number(largest)


def analyse(call: Call, differentiable: bool = False) -> Analysis:
    """The analysis of a call; an error for NaN or infinity.

    If gradients will be computed, all coordinates are kept and index sets are of total degree: a coordinate in which
    all queries are zero adds nothing to a score, but scores have a gradient in it.
    """
    bounds = input_bounds(call)
    shift = key_shift(call, bounds.largest[1]) if call.order == 2 and not call.positions.is_causal else None
    frame = make_frame(call, bounds, shift, torch.float64, differentiable)
    return _analyse(call, frame, bounds.values, differentiable)


def in_float32(analysis: Analysis) -> bool:
    """Whether no relevant number leaves the range of float32.

    Gradients multiply values, keys and incoming gradients of very different sizes, so these need moderate sizes.
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
"""Magnitudes from 2^-_MODERATE to 2^_MODERATE are moderate."""
_LEFT_OUT = 1 / 64
"""The part of the tolerance that coordinates left out of a basis may take."""


def turned(analysis: Analysis, tolerance: float) -> Analysis | None:
    """The analysis in a better basis; None if no basis lowers the rank, or if any would change scores.

    Beyond order 2 scores depend on the basis, and a causal call may not depend on later keys.
    """
    call, frame = analysis.call, analysis.frame
    if call.order > 2 or analysis.shape.is_causal or frame.width < 2 or 0 in call.query.shape:
        return None
    width = number(analysis.values.width.max())
    slack = _LEFT_OUT * tolerance / width if width else 0.0
    centred = replace(frame, shift=key_mean(call)[..., frame.kept])  # in another basis a shift has no additional cost
    basis = rotated(call, centred, None if analysis.differentiable else slack)
    if basis is None:
        return None
    return _analyse(call, basis, analysis.values, analysis.differentiable)


def _analyse(call: Call, frame: Frame, values: ValueRange, differentiable: bool) -> Analysis:
    norms = key_norms(call, frame)
    radii = query_radii(call, frame, norms)
    shape = sizes_of(call)
    moved = None if frame.basis is None else drift(call, frame)
    if moved is not None:  # coordinates that are recomputed in other chunks may be rounded differently
        radii = radii + 2 * moved
    product = product_of(frame.largest)
    largest = product.amax(0) if len(product) else product.sum(0)
    reach = radii.amax() if radii.numel() else radii.sum()
    *amplitudes, radius = numbers(torch.cat([largest, reach.reshape(1)]))
    backend = backend_of(call)
    return Analysis(call, shape, frame, norms, radii, radius, tuple(amplitudes), values, moved, differentiable, backend)


def sizes_of(call: Call) -> Shape:
    """The sizes of a call."""
    heads, length, d = call.query.shape
    return Shape(heads, length, call.key_lengths, d, call.values[0].shape[2], call.positions.is_causal)


def key_norms(call: Call, frame: Frame) -> Tensor:
    """prod_m max_j ||k_m,j||_k (H,): the factor of the query's l_k norm in Hoelder's bound."""
    k, width = call.order, frame.width
    total = torch.ones(call.query.shape[0], dtype=torch.float64, device=call.query.device)
    for m, key in enumerate(call.keys):
        mask = call.masks[m] if call.masks else None
        tokens = token_norms(key, k, frame.factors[m + 1], mask) if frame.only_scales else None
        if tokens is not None:
            total = total * (tokens.largest + width * 2.0**-1000) ** (1 / k)
            continue
        largest = torch.zeros_like(total)
        for start, stop in pieces_in_memory(4 * key.shape[0] * width, key.shape[1]):
            mask = call.masks[m][:, start:stop] if call.masks else None
            x = frame.coordinates(key[:, start:stop], m + 1, mask).to(torch.float64)
            largest = torch.maximum(largest, _power_sum(x, k).amax(1))
        total = total * largest ** (1 / k)
    return total


def _power_sum(x: Tensor, k: int) -> Tensor:
    """An upper bound on sum_l |x_l|^k of (H, d', c): the largest error by underflow of the powers is added."""
    return power(x.abs(), k).sum(1) + x.shape[1] * 2.0**-1000


def query_radii(call: Call, frame: Frame, norms: Tensor) -> Tensor:
    """R_i (H, L_q) >= |scale| sum_l |q_il k_1,l ...| for all tuples: by the amplitudes or by Hoelder's inequality,
    whichever is smaller.
    """
    k, width, amplitude = call.order, frame.width, product_of(frame.largest[1:])
    # Rounding the coordinates to float32 adds one rounding to each score.
    slack = SLACK * (1 + (k + 2) * torch.finfo(frame.dtype).eps)
    if frame.only_scales:
        tokens = token_norms(call.query, k, frame.factors[0] * call.scale, None, amplitude)
        if tokens is not None and tokens.powers is not None and tokens.weighted is not None:
            by_hoelder = (tokens.powers + width * 2.0**-1000) ** (1 / k) * norms.unsqueeze(-1)
            return torch.minimum(tokens.weighted, by_hoelder).mul_(slack)
    radii = call.query.new_empty(call.query.shape[:2], dtype=torch.float64)
    for start, stop in pieces_in_memory(4 * call.query.shape[0] * width, call.query.shape[1]):
        x = frame.coordinates(call.query[:, start:stop], 0).to(torch.float64)
        by_amplitude = (x.abs() * amplitude.unsqueeze(-1)).sum(1)
        by_hoelder = _power_sum(x, k) ** (1 / k) * norms.unsqueeze(-1)
        radii[:, start:stop] = torch.minimum(by_amplitude, by_hoelder)
    return radii * slack


def gamma(analysis: Analysis, degree: int, rank: int, dtype: torch.dtype, computed: int = 0) -> float:
    """A bound on the relative error of the sums of a call, from its roundings (see `arithmetic.rounding`).

    If more monomials are `computed` than the sum has, their number determines the chunks of tokens.
    """
    adds = summing(analysis.backend, analysis.call, max(rank, computed), dtype)
    return relative_error(analysis.shape, analysis.frame.width, degree, rank, adds, dtype)


@lru_cache(maxsize=4096)
def relative_error(shape: Shape, width: int, degree: int, rank: int, adds: Summing, dtype: torch.dtype) -> float:
    """A bound on the relative error of sums of monomials, for a number of coordinates and a summation."""
    lengths = shape.key_lengths
    return expanded_sum(adds.tokens(lengths), len(lengths), width, degree, rank).gamma(dtype)


def gradient_gamma(analysis: Analysis, degree: int, rank: int, dtype: torch.dtype) -> float:
    """The relative error of the sums of the backward pass, which sums tokens in chunks in every backend."""
    shape, width = analysis.shape, analysis.frame.width
    chunk = chunk_tokens(max(shape.heads, 1), rank, dtype == torch.float64)
    adds = summing(analysis.backend, analysis.call, rank, dtype) if shape.is_causal else Summing(chunk, chunk)
    tokens, queries = adds.tokens(shape.key_lengths), adds.tokens([shape.query_length])
    sums = expanded_gradient_sum(tokens, queries, len(shape.key_lengths), width, shape.d_v, degree, rank)
    return sums.gamma(dtype)


def pieces_in_memory(rows: int, length: int) -> Iterator[Piece]:
    """Split `length` columns into pieces, so that `rows` of a piece have about `PIECE` entries."""
    return pieces(length, max(PIECE // max(rows, 1), 1))


LARGEST_SQUARE = 1.01
"""A bound on all products of squares over the value sets: at most 63 factors of at most 1 + 2^-19."""


@dataclass(frozen=True)
class Deviation:
    """A bound on deviations: |v_t - centre| <= prod_m scales[m] * sqrt(prod_m squares[m]) in every column.

    Attributes:
        centre: The point (H, d_v) from which deviations are measured, exact in the dtype of the values.
        scales: The largest deviation of each value set, (H,) each.
    """

    centre: Tensor
    scales: tuple[Tensor, ...]

    @property
    def scale(self) -> Tensor:
        """An upper bound on the product of the scales, (H, 1)."""
        return product_of(self.scales).unsqueeze(1) * SLACK

    def squares(self, value: Tensor, m: int, columns: int) -> Tensor:
        """An upper bound on the squared deviations (H, n, columns) of values (H, n, d_v) of set m, divided by the
        square of the set's scale.

        If `columns` is 1, the bound holds for all columns of the values.
        """
        scale = self.scales[m].masked_fill(self.scales[m] == 0, 1.0).reshape(-1, 1, 1)
        away = self.magnitudes(value)
        if columns == 1:
            away = away.amax(-1, keepdim=True)
        away = away / scale
        return away * away * (1 + 2.0**-20) + 2.0**-60

    def magnitudes(self, value: Tensor) -> Tensor:
        """|value - centre| (H, n, d_v), rounded at most once in float32; beyond order 2 the centre is 0."""
        if len(self.scales) > 1:
            return value.abs()
        dtype = torch.promote_types(value.dtype, torch.float32)
        return (value.to(dtype) - self.centre.to(dtype).unsqueeze(1)).abs_()


def deviation(call: Call, values: ValueRange) -> Deviation:
    """The centre and the scales of the values of a call."""
    if call.order > 2:
        return Deviation(torch.zeros_like(values.magnitude), values.ends.abs().amax((0, 3)).unbind(0))
    centre = token_mean(call.values[0], call.mask_of_each[0]).to(call.values[0].dtype).to(torch.float64)
    least, most = values.ends[:, 0].unbind(0)
    return Deviation(centre, (torch.maximum(most - centre, centre - least).amax(1) * SLACK,))


def squares_of(call: Call, away: Deviation, columns: int) -> tuple[Tensor, ...]:
    """The squared deviations (H, L_m, columns) of each value set, in the dtype of the arithmetic and rounded up."""
    squares = []
    for m, value in enumerate(call.values):
        heads, length, d_v = value.shape
        into = value.new_empty(heads, length, columns, dtype=call.computed_in)
        for start, stop in pieces_in_memory(4 * heads * d_v, length):
            into[:, start:stop] = away.squares(value[:, start:stop], m, columns)
        squares.append(into)
    return tuple(squares)
