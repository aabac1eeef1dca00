"""Some queries and key tuples of a call, drawn with a fixed seed: a forecast uses them instead of sums over all tuples.

Queries share the tuples of their head, so that their scores are one product of matrices. In a causal call a query
attends a part of the tuples that are drawn. They are counted equally, which says little about the first queries: their
sums have few terms and are far from any mean. So these queries are another sample, with all of their tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from separatrix.attention.bounds import product_of
from separatrix.attention.near_linear.analysis import Analysis, Deviation
from separatrix.attention.near_linear.cost import sampled_queries, sampled_tuples


class ScoreSample:
    """Sums over tuples of powers of the scores, for some queries, over the sums of exp(s).

    Args:
        analysis: The analysis of a call.
        deviation: That of its values.
        queries: Indices (H, queries) of the queries.
        tuples: Indices (H, tuples) of the tokens of each key set.
        attended: Which of the tuples each query attends, (H, queries, tuples); None for all.
    """

    def __init__(
        self,
        analysis: Analysis,
        deviation: Deviation,
        queries: Tensor,
        tuples: Sequence[Tensor],
        attended: Tensor | None = None,
    ) -> None:
        self.queries = queries
        self._analysis, self._deviation, self._tuples, self._attended = analysis, deviation, tuples, attended
        self._sums: dict[bool, list[Tensor]] = {False: [], True: []}
        self._terms: dict[bool, Tensor] = {}

    @cached_property
    def _scores(self) -> Tensor:
        """(H, queries, tuples)."""
        call, frame = self._analysis.call, self._analysis.frame
        coordinates = []
        for m, (key, index) in enumerate(zip(call.keys, self._tuples, strict=True)):
            mask = torch.gather(call.masks[m], 1, index) if call.masks else None
            coordinates.append(frame.coordinates(_rows(key, index), m + 1, mask))
        return frame.coordinates(_rows(call.query, self.queries), 0).mT @ product_of(coordinates)

    @cached_property
    def _weights(self) -> Tensor:
        """exp(s) (H, queries, tuples); 0 for a tuple that is not attended."""
        return self._shown(torch.exp(self._scores))

    @cached_property
    def _totals(self) -> Tensor:
        """The sums of exp(s), (H, queries); infinity for a query with no keys to attend."""
        totals = self._weights.sum(-1)
        return totals.masked_fill(totals == 0, torch.inf)

    def _shown(self, x: Tensor) -> Tensor:
        return x if self._attended is None else x * self._attended

    def mean_power(self, moment: int) -> Tensor:
        """The sum of s^moment, for an even moment, divided by the sum of exp(s), (H, queries)."""
        return self._sum(moment, weighted=False)

    def weighted_squares(self, moment: int, columns: int) -> Tensor:
        """The largest sum of s^moment times a column of squared deviations over the sum of exp(s), (H, queries).

        The sums of several columns are not computed: their largest is taken to be the same part of the sum of the
        largest squares for every power as for s^0.
        """
        sums = self._sum(moment, weighted=True)
        return sums if columns == 1 else sums * self._largest_share

    @cached_property
    def _largest_share(self) -> Tensor:
        """The mean square of the largest column over the mean of the largest squares, (H, 1)."""
        columns = self._values[0].shape[2]
        of_each = torch.stack([squares.mean((-1, -2)) for squares in self._squares(columns)]).amax(0)
        return (of_each / self._squares(1)[0].mean((-1, -2))).unsqueeze(1)

    def output(self) -> Tensor:
        """The outputs (H, queries, d_v)."""
        values = product_of([value.to(torch.float64) for value in self._values])
        return self._weights @ values / self._totals.unsqueeze(-1)

    @cached_property
    def _values(self) -> list[Tensor]:
        """The values (H, tuples, d_v) of each set; 0 for hidden tokens."""
        call = self._analysis.call
        values = [_rows(value, index) for value, index in zip(call.values, self._tuples, strict=True)]
        if not call.masks:
            return values
        hidden = [~torch.gather(mask, 1, index) for mask, index in zip(call.masks, self._tuples, strict=True)]
        return [value.masked_fill(unseen.unsqueeze(-1), 0.0) for value, unseen in zip(values, hidden, strict=True)]

    @cached_property
    def _squared_scores(self) -> Tensor:
        return self._scores * self._scores

    def _squares(self, columns: int) -> Sequence[Tensor]:
        """The squared deviations of the values, (H, 1, tuples) for each column."""
        squares = product_of([self._deviation.squares(value, m, columns) for m, value in enumerate(self._values)])
        return squares.unsqueeze(1).unbind(-1)

    def _sum(self, moment: int, weighted: bool) -> Tensor:
        """The sum of s^moment divided by the sum of exp(s), (H, queries), `weighted` by a column of squared deviations.

        A product of matrices would be faster, but its roundings depend on the number of threads.
        """
        sums = self._sums[weighted]
        while 2 * len(sums) <= moment:
            if sums:
                terms = self._terms[weighted] * self._squared_scores
            else:
                weights = self._squares(1)[0] if weighted else self._scores.new_ones(())
                terms = self._shown(weights.expand_as(self._scores))
            self._terms[weighted] = terms
            sums.append(terms.sum(-1) / self._totals)
        return sums[moment // 2]


def draw_samples(analysis: Analysis, deviation: Deviation) -> list[ScoreSample]:
    """The samples of a call: queries with tuples that are drawn, and if it is causal the first queries with theirs."""
    call, radii = analysis.call, analysis.radii
    heads, length = radii.shape
    count = min(sampled_queries(heads) // 2, length)
    even = torch.arange(count, device=radii.device) * length // max(count, 1)
    # Half of the queries are those with the largest bounds, and half are spread evenly.
    queries = torch.cat([radii.topk(count, dim=1).indices, even.expand(heads, -1)], 1)
    generator = torch.Generator().manual_seed(0)
    tuples = []
    for key in call.keys:
        where = torch.rand(heads, sampled_tuples(heads), generator=generator).to(key.device)
        tuples.append((where * key.shape[1]).long().clamp(max=max(key.shape[1] - 1, 0)))
    samples = [ScoreSample(analysis, deviation, queries, tuples)]
    return [*samples, *_first_queries(analysis, deviation)] if analysis.shape.is_causal else samples


def _first_queries(analysis: Analysis, deviation: Deviation) -> list[ScoreSample]:
    """The queries that attend so few tuples that all of them fit into a sample; no sample if there are none."""
    call = analysis.call
    heads, length, _ = call.query.shape
    sets, device = len(call.keys), call.query.device
    most = min(sampled_queries(heads), round(sampled_tuples(heads) ** (1 / sets) - 0.5))
    first, offset = max(-call.positions.offset, 0), call.positions.offset
    last = min(most - offset, length)
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
    return [ScoreSample(analysis, deviation, queries.expand(heads, -1), tuples, attended)]


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows (H, n, d) of tokens (H, L, d)."""
    return torch.gather(x, 1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))
