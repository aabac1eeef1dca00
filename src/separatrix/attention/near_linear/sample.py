"""Means over some queries and key tuples of a call, drawn with a fixed seed: a forecast uses them in place of all.

Queries share the tuples of their head, so that their scores are one product of matrices. In a causal call a query
attends some of the sampled tuples. They have equal weights in the sample, which says little about the first queries:
their sums have few terms and may be far from any mean. So these queries are a separate part of the sample,
with all of their tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.bounds import product_of
from separatrix.attention.near_linear.analysis import Analysis, Deviation, deviation
from separatrix.attention.near_linear.cost import sampled_queries, sampled_tuples


class Sample:
    """Means over the sampled tuples of an analysed call, for its sampled queries, (H, queries) each.

    Attributes:
        radii: Bounds on the scores of the sampled queries.
        queries: The indices of the sampled queries.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._means: dict[int, Tensor] = {}
        self._spreads: dict[tuple[int, int], Tensor] = {}
        self.queries = torch.cat([part.queries for part in self._parts], 1)
        self.radii = torch.gather(analysis.radii, 1, self.queries)

    @cached_property
    def _parts(self) -> list[SamplePart]:
        return draw_parts(self._analysis)

    def forget_tuples(self) -> None:
        """Free the memory of the scores before a run; tuples are drawn again if another mean is needed."""
        self.__dict__.pop("_parts", None)

    def mean_power(self, moment: int) -> Tensor:
        """The mean of s^moment, for an even moment, divided by the mean of exp(s)."""
        if moment not in self._means:
            self._means[moment] = torch.cat([part.mean_power(moment) for part in self._parts], 1)
        return self._means[moment]

    def spread(self, moment: int, columns: int) -> Tensor:
        """Forecast sum_t s_t^moment |v_t - o| over sum_t exp(s_t), as the certificate bounds it.

        It is bounded by the range of the values, and by columns of squared deviations unless their number is 0.
        """
        if (moment, columns) not in self._spreads:
            power = self.mean_power(moment)
            spread = power * self._analysis.values.widest
            if columns:
                away = self._deviation
                squares = torch.cat([part.weighted_squares(moment, columns, away) for part in self._parts], 1)
                spread = torch.minimum(spread, torch.sqrt(power * squares) * away.scale + power * self._distance)
            self._spreads[moment, columns] = spread
        return self._spreads[moment, columns]

    def largest_spread(self, moment: int, columns: int) -> tuple[float, float]:
        """The largest spread over the queries of all heads, and the bound on the scores of its query."""
        spread = self.spread(moment, columns).flatten()
        if not spread.numel():
            return 0.0, 0.0
        at = spread.argmax()
        most, radius = numbers(torch.stack([spread[at], self.radii.flatten()[at]]))
        return most, radius

    @cached_property
    def _deviation(self) -> Deviation:
        return deviation(self._analysis.call, self._analysis.values)

    @cached_property
    def _distance(self) -> Tensor:
        """The distance of the outputs from the centre of the values."""
        output = torch.cat([part.output() for part in self._parts], 1)
        return (output - self._deviation.centre.unsqueeze(1)).abs().amax(-1)


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

    def mean_power(self, moment: int) -> Tensor:
        """The sum of s^moment, for an even moment, divided by the sum of exp(s), (H, queries)."""
        return self._sum(moment, None)

    def weighted_squares(self, moment: int, columns: int, away: Deviation) -> Tensor:
        """The largest of the sums of s^moment times a column of squared deviations, divided by the sum of exp(s).

        The shape is (H, queries); the largest is over the columns.

        The sums of several columns are not computed: their largest is taken to be the same part of the sum of the
        largest squares for every power as for s^0.
        """
        sums = self._sum(moment, away)
        return sums if columns == 1 else sums * self._largest_share(columns, away)

    def _largest_share(self, columns: int, away: Deviation) -> Tensor:
        """The mean square of the largest column over the mean of the largest squares, (H, 1)."""
        if self._share is None:
            squares = product_of([away.squares(value, m, columns) for m, value in enumerate(self._values)])
            self._share = squares.mean(1).amax(-1, keepdim=True) / self._squares(away).mean(-1)
        return self._share

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

    def _sum(self, moment: int, away: Deviation | None) -> Tensor:
        """The sum of s^moment over the sum of exp(s), (H, queries), weighted by squared deviations if `away` is given.

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
    """Queries with tuples that are drawn, and for a causal call its first queries with all of theirs."""
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
    """The queries that attend so few tuples that all of them fit into a part; no part if there are none."""
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
