"""Which algorithm, at which rank: chosen from bounds on the entries and a sample of the scores, before any work.

A plan forecasts; the certificate of the result promises. Everything here is a pure function of the input and of
constants that ship with the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from separatrix.attention.certificate import ValueRange, gamma, greedy_error, key_norms, query_radii, value_range
from separatrix.attention.cost import (
    AFFORDABLE,
    LARGEST_DEGREE,
    LARGEST_RANK,
    Cost,
    Shape,
    exact_cost,
    polynomial_cost,
    threshold,
)
from separatrix.attention.frame import Frame, Tokens, key_mean, largest_magnitudes, make_frame
from separatrix.attention.monomials import IndexSet, downward_closed, greedy_alphas, total_degree
from separatrix.attention.polynomial import chunk_tokens
from separatrix.attention.remainder import Polynomial, chebyshev, taylor
from separatrix.errors import ArgumentError, SeparatrixError

_QUERIES, _TUPLES = 64, 512
"""The sample: queries of each head, half of them those with the largest bounds, and tuples of each."""
_MARGIN = 0.9
"""The part of the tolerance that a forecast may take."""
_LARGEST_RADIUS = 50.0
"""Beyond it exp(2 R) times the precision of float64 is more than 1."""


@dataclass(frozen=True)
class Recipe:
    """What the polynomial method expands: the index set, its polynomial (None if not of total degree), the dtype."""

    index_set: IndexSet = field(repr=False)
    polynomial: Polynomial | None
    dtype: torch.dtype


@dataclass(frozen=True)
class Plan:
    """The algorithm chosen and what is expected of it.

    method: "exact" or "polynomial"; degree, rank and shape of the index set for the latter. `predicted_error` is a
    forecast of the certified error, never a promise. `flops` are those of the matrix products, `bytes` what is held
    beside inputs and outputs, `why` is one sentence.
    """

    method: str
    degree: int | None
    rank: int | None
    index_set: str | None
    predicted_error: float
    flops: float
    bytes: float
    why: str
    recipe: Recipe | None = field(repr=False, default=None, compare=False)


@dataclass(frozen=True)
class Analysis:
    """What is known of a call before it is computed; `scores` (H, queries, tuples) is the sample."""

    tokens: Tokens
    shape: Shape
    frame: Frame
    norms: Tensor
    radii: Tensor
    values: ValueRange
    scores: Tensor
    sampled: Tensor

    @property
    def radius(self) -> float:
        return float(self.radii.max()) if self.radii.numel() else 0.0

    def entry_bound(self) -> float:
        """B: the largest magnitude in the query and the keys."""
        return max(float(x.abs().max()) if x.numel() else 0.0 for x in (self.tokens.query, *self.tokens.keys))


def analyse(tokens: Tokens, is_causal: bool, offset: int) -> Analysis:
    """Bounds and a sample; an error for NaN or infinity."""
    for m, value in enumerate(tokens.values):
        largest_magnitudes(f"values[{m}]", value, tokens.masks[m] if tokens.masks else None)
    shift = key_mean(tokens) if tokens.order == 2 and not is_causal else None
    frame = make_frame(tokens, shift, torch.float64)
    norms = key_norms(tokens, frame)
    radii = query_radii(tokens, frame, norms)
    heads, length, d = tokens.query.shape
    shape = Shape(heads, length, tuple(key.shape[1] for key in tokens.keys), d, tokens.values[0].shape[2], is_causal)
    sampled = _sample_queries(radii)
    scores = _sample_scores(tokens, frame, sampled, is_causal, offset)
    return Analysis(tokens, shape, frame, norms, radii, value_range(tokens), scores, sampled)


def _sample_queries(radii: Tensor) -> Tensor:
    """Indices (H, queries): those with the largest bounds, and some spread evenly."""
    length = radii.shape[1]
    count = min(_QUERIES // 2, length)
    even = torch.arange(count, device=radii.device) * length // max(count, 1)
    return torch.cat([radii.topk(count, dim=1).indices, even.expand(radii.shape[0], -1)], 1)


def _sample_scores(tokens: Tokens, frame: Frame, sampled: Tensor, is_causal: bool, offset: int) -> Tensor:
    """Scores (H, queries, tuples) of tuples drawn with a fixed seed from those that a query may attend."""
    heads = tokens.query.shape[0]
    generator = torch.Generator().manual_seed(0)
    product = torch.gather(tokens.query, 1, sampled.unsqueeze(-1).expand(-1, -1, tokens.query.shape[2]))
    product = frame.coordinates(product, 0).mT.unsqueeze(2)
    for m, key in enumerate(tokens.keys):
        where = torch.rand(heads, sampled.shape[1], _TUPLES, generator=generator).to(key.device)
        seen = torch.full_like(sampled, key.shape[1])
        if is_causal:
            seen = torch.minimum(seen, (sampled + offset + 1).clamp(min=1))
        index = (where * seen.unsqueeze(-1)).long().clamp(max=max(key.shape[1] - 1, 0))
        mask = torch.gather(tokens.masks[m], 1, index.flatten(1)) if tokens.masks else None
        rows = torch.gather(key, 1, index.flatten(1).unsqueeze(-1).expand(-1, -1, key.shape[2]))
        x = frame.coordinates(rows, m + 1, mask).mT
        product = product * x.unflatten(1, index.shape[1:])
    return product.sum(-1)


def mean_power(analysis: Analysis, moment: int) -> Tensor:
    """The mean of s^moment over that of exp(s), (H, queries), in the sample.

    A causal query at the beginning has few tuples and no average to rely on: there the largest s^moment / exp(s).
    """
    if analysis.shape.is_causal:
        return (analysis.scores**moment / torch.exp(analysis.scores)).amax(-1)
    return (analysis.scores**moment).mean(-1) / torch.exp(analysis.scores).mean(-1)


def forecast(analysis: Analysis, polynomial: Polynomial, rank: int, dtype: torch.dtype) -> float:
    """The certificate's total for a total-degree set, with sums over all tuples replaced by those over the sample."""
    radii = torch.gather(analysis.radii, 1, analysis.sampled)
    truncation = polynomial.factors(radii) * mean_power(analysis, polynomial.moment)
    return _forecast(analysis, truncation, polynomial.magnitude(radii), polynomial.degree, rank, dtype)


def greedy_forecast(analysis: Analysis, index_set: IndexSet, dtype: torch.dtype) -> float:
    """The same for a set shaped by the amplitudes."""
    rows = analysis.sampled.unsqueeze(-1).expand(-1, -1, analysis.shape.d)
    tokens = replace(analysis.tokens, query=torch.gather(analysis.tokens.query, 1, rows))
    E = greedy_error(tokens, analysis.frame, index_set, amplitudes(analysis))
    tuples = math.prod(float(length) for length in analysis.shape.key_lengths)
    magnitude = torch.exp(torch.gather(analysis.radii, 1, analysis.sampled))
    truncation = E / tuples * mean_power(analysis, 0)
    return _forecast(analysis, truncation, magnitude, index_set.degree, index_set.rank, dtype)


def _forecast(
    analysis: Analysis, truncation: Tensor, magnitude: Tensor, degree: int, rank: int, dtype: torch.dtype
) -> float:
    if not truncation.numel():
        return 0.0
    steps = chunk_tokens(analysis.shape.heads, rank, dtype)
    relative = gamma(analysis.shape.key_lengths, degree, rank, steps, dtype)
    rounding = 2 * relative * magnitude * mean_power(analysis, 0)
    width, largest = analysis.values.width.amax(1, keepdim=True), analysis.values.magnitude.amax(1, keepdim=True)
    return float((truncation * width + rounding * largest).max())


def amplitudes(analysis: Analysis) -> Tensor:
    """b_l (d',), the largest over the heads."""
    product = analysis.frame.largest[0]
    for largest in analysis.frame.largest[1:]:
        product = product * largest
    return product.amax(0) if product.shape[0] else product.sum(0)


def _polynomials(degree: int, radius: float) -> Iterator[Polynomial]:
    """Taylor's, and Chebyshev's in every even weight below it, unless the scores are so small that none can win."""
    yield taylor(degree)
    if radius >= 0.25:
        yield from (chebyshev(degree, moment, radius) for moment in range(0, degree - 1, 2))


def recipes(analysis: Analysis, tolerance: float, least_degree: int = 0) -> Recipe | None:
    """The lowest rank whose forecast keeps the tolerance, of all index sets; None if there is none."""
    if analysis.radius > _LARGEST_RADIUS:
        return None
    target, d = _MARGIN * tolerance, len(analysis.frame.kept)
    polynomial, rank = _total_degree(analysis, target, least_degree)
    if not analysis.shape.is_causal and d >= 2 and least_degree == 0 and _uneven(analysis):
        index_set = _greedy(analysis, target, LARGEST_RANK // 8 if polynomial is None else rank)
        if index_set is not None:
            narrow = greedy_forecast(analysis, index_set, torch.float32)
            return Recipe(index_set, None, _dtype(analysis, narrow, target))
    if polynomial is None:
        return None
    narrow = forecast(analysis, polynomial, rank, torch.float32)
    return Recipe(total_degree(d, polynomial.degree), polynomial, _dtype(analysis, narrow, target))


def _dtype(analysis: Analysis, narrow: float, target: float) -> torch.dtype:
    """float32 where its forecast keeps the target, else float64."""
    return torch.float32 if analysis.tokens.query.dtype != torch.float64 and narrow <= target else torch.float64


def _total_degree(analysis: Analysis, target: float, least_degree: int) -> tuple[Polynomial | None, int]:
    """The polynomial of the lowest degree whose forecast keeps the target, and its rank."""
    d = len(analysis.frame.kept)
    for degree in range(least_degree, LARGEST_DEGREE + 1):
        rank = math.comb(d + degree, degree)
        if rank > LARGEST_RANK:
            break
        for polynomial in _polynomials(degree, analysis.radius):
            if forecast(analysis, polynomial, rank, torch.float64) <= target:
                return polynomial, rank
    return None, 0


def _uneven(analysis: Analysis) -> bool:
    """Whether some coordinates matter much less than others, so that a set shaped by the amplitudes may pay."""
    b = amplitudes(analysis)
    return bool(b.min() < 0.25 * b.max() and b.sum() < _LARGEST_RADIUS)


def _greedy(analysis: Analysis, target: float, rank: int) -> IndexSet | None:
    """The smallest set shaped by the amplitudes, by steps of 3/4 below `rank`, whose forecast keeps the target."""
    alphas = greedy_alphas(amplitudes(analysis).tolist(), min(rank, 1 << 14))
    alphas = [alpha for alpha in alphas if sum(alpha) <= LARGEST_DEGREE]
    best = None
    size = min(rank - 1, len(alphas)) * 3 // 4
    while size >= 1:
        index_set = downward_closed(alphas[:size])
        if greedy_forecast(analysis, index_set, torch.float64) > target:
            break
        best, size = index_set, size * 3 // 4
    return best


def polynomial_plan(analysis: Analysis, recipe: Recipe, tolerance: float, exact: Cost) -> Plan:
    index_set = recipe.index_set
    cost = polynomial_cost(analysis.shape, index_set.rank, recipe.dtype == torch.float64)
    if recipe.polynomial is None:
        kind = f"{index_set.rank} multi-indices shaped by the amplitudes"
        error = greedy_forecast(analysis, index_set, recipe.dtype)
    else:
        error = forecast(analysis, recipe.polynomial, index_set.rank, recipe.dtype)
        series = "Taylor" if recipe.polynomial.factor is None else f"Chebyshev, weight s^{recipe.polynomial.moment}"
        kind = f"total degree {index_set.degree} ({series})"
    why = (
        f"scores are at most {analysis.radius:.3g} in magnitude, so rank {index_set.rank} keeps {tolerance:.3g} in "
        f"time linear in n, an estimated {exact.time / cost.time:.3g} times faster than exact"
    )
    return Plan("polynomial", index_set.degree, index_set.rank, kind, error, cost.flops, cost.bytes, why, recipe)


def choose(analysis: Analysis, tolerance: float, method: str = "auto") -> Plan:
    """The cheapest plan that keeps the tolerance; an error if none is affordable."""
    wide = analysis.tokens.query.dtype == torch.float64
    exact = exact_cost(analysis.shape, wide)
    recipe = None if method == "exact" else recipes(analysis, tolerance)
    plan = None if recipe is None else polynomial_plan(analysis, recipe, tolerance, exact)
    if method == "polynomial":
        if plan is None:
            raise out_of_reach(analysis, tolerance)
        return plan
    if plan is not None and recipe is not None:
        cost = polynomial_cost(analysis.shape, recipe.index_set.rank, recipe.dtype == torch.float64)
        if cost.time < exact.time:
            return plan
    if exact.flops > AFFORDABLE and method == "auto":
        if plan is not None:
            return plan
        raise out_of_reach(analysis, tolerance)
    if method == "exact":
        why = "exact attention was asked for"
    elif plan is None:
        why = f"no polynomial of rank up to {LARGEST_RANK} keeps {tolerance:.3g}: scores reach {analysis.radius:.3g}"
    else:
        why = f"at these lengths exact attention is cheaper than the polynomial method at rank {plan.rank}"
    unit = torch.finfo(analysis.tokens.query.dtype).eps
    largest = float(analysis.values.magnitude.max()) if analysis.values.magnitude.numel() else 0.0
    return Plan("exact", None, None, None, 64 * unit * largest, exact.flops, exact.bytes, why)


def out_of_reach(analysis: Analysis, tolerance: float) -> SeparatrixError:
    """What was asked, why it cannot be had, and what could."""
    shape = analysis.shape
    n, B = max(shape.query_length, *shape.key_lengths), analysis.entry_bound()
    scale = abs(analysis.tokens.scale)
    rank = worst_case_rank(shape.d, scale * shape.d * B**shape.order, tolerance)
    low, high = 0.0, B
    for _ in range(60):
        middle = (low + high) / 2
        needed = worst_case_rank(shape.d, scale * shape.d * middle**shape.order, tolerance)
        low, high = (middle, high) if needed <= LARGEST_RANK else (low, middle)
    looser = tolerance
    while looser < 1 and worst_case_rank(shape.d, scale * shape.d * B**shape.order, looser) > LARGEST_RANK:
        looser *= 10
    other = f"a tolerance of {looser:.1g}" if looser < 1 else "no tolerance below 1 at this bound"
    return SeparatrixError(
        f"Attention of order {shape.order} over n = {n} tokens with entries up to B = {B:.4g} and tolerance "
        f"{tolerance:.3g} is out of reach: the near-linear algorithm would take rank {rank:.3g} (at most "
        f"{LARGEST_RANK} is tried), and exact attention {exact_cost(shape, False).flops:.3g} flops. Theorems 1.3 and "
        f"1.4 of Alman and Song put the border at B = (ln n)^(1/k) = {threshold(n, shape.order):.3g}. "
        f"What would work at d = {shape.d}, whatever the entries: B <= {low:.3g} at this tolerance, or {other}."
    )


def worst_case_degree(radius: float, tolerance: float) -> int | None:
    """The degree that keeps the tolerance, relative to the values' magnitude, for any scores up to `radius`."""
    if radius > _LARGEST_RADIUS:
        return None
    at = torch.tensor([radius], dtype=torch.float64)
    for degree in range(LARGEST_DEGREE + 1):
        error = taylor(degree).factors(at).item() * radius ** (degree - degree % 2)
        if radius >= 0.25:
            error = min(error, chebyshev(degree, 0, radius).factor or math.inf)
        smallest = math.exp(-radius) - error
        if smallest > 0 and 2 * error / smallest <= tolerance:
            return degree
    return None


def worst_case_rank(d: int, radius: float, tolerance: float) -> float:
    """C(d + g, g) for the degree g of the worst case; infinity where no degree up to the largest is enough."""
    degree = worst_case_degree(radius, tolerance)
    return math.inf if degree is None else float(math.comb(d + degree, degree))


def check_tolerance(tolerance: float) -> float:
    if not (isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool) and 0 < tolerance < math.inf):
        raise ArgumentError("tolerance", expected="a positive finite number", got=tolerance)
    return float(tolerance)


def plan_shapes(n: int, d: int, bound: float, order: int, tolerance: float) -> Plan:
    """The plan for any n x d inputs with entries up to `bound`, values too, at scale 1/d (Definition 1.2).

    Nothing is known of the data, so the forecast is the worst case, and is kept.

    >>> plan_shapes(10**6, 8, 0.9, 3, 1e-3).rank
    495
    """
    for name, number, least in (("n", n, 1), ("d", d, 1), ("order", order, 2)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ArgumentError(name, expected=f"an integer >= {least}", got=number)
    if not (isinstance(bound, (int, float)) and 0 <= bound < math.inf):
        raise ArgumentError("bound", expected="a finite number >= 0", got=bound)
    tolerance = check_tolerance(tolerance)
    shape = Shape(1, n, (n,) * (order - 1), d, d)
    radius, largest = bound**order, bound ** (order - 1)
    exact = exact_cost(shape, False)
    relative = tolerance / largest if largest else math.inf
    degree = 0 if not largest else worst_case_degree(radius, relative)
    border = threshold(n, order)
    side = f"B = {bound:.3g} is {'below' if bound < border else 'at or above'} (ln n)^(1/k) = {border:.3g}"
    if degree is not None:
        rank = math.comb(d + degree, degree)
        cost = polynomial_cost(shape, rank, True)
        if cost.time < exact.time:
            why = f"{side}, and rank {rank} keeps {tolerance:.3g} whatever the entries"
            return Plan("polynomial", degree, rank, f"total degree {degree}", tolerance, cost.flops, cost.bytes, why)
        why = f"{side}, and the worst case takes rank {rank}, dearer than exact attention at this length"
    else:
        why = f"{side}, and no degree up to {LARGEST_DEGREE} keeps {tolerance:.3g} in the worst case"
    return Plan("exact", None, None, None, 0.0, exact.flops, exact.bytes, why)
