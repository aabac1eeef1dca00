"""The tuples of keys with the largest weights for every query, found without storing all weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions
from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call, Range
from separatrix.attention.weights.scores import LogSum, blocks, checked, cut, of_heads, unravelled
from separatrix.checks import whole


@dataclass(frozen=True)
class TopTuples:
    """The tuples with the largest weights for every query, the largest first.

    Attributes:
        indices: The index of the tuple's key in each set, (..., L_q, k, order - 1); -1 where a query may attend to
            fewer than k tuples.
        weights: The weights of these tuples, (..., L_q, k); 0 where the index is -1.
        lse: The log-sum-exp of the scores of all tuples that a query may attend, (..., L_q); -inf where there is none.
    """

    indices: Tensor
    weights: Tensor
    lse: Tensor


def top_tuples(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    k: int = 10,
    **options: Unpack[CallOptions],
) -> TopTuples:
    """The k tuples of keys with the largest weights for each query, and these weights.

    A weight is the factor of the tuple's values in `tensor_attention`: the softmax over **all** tuples that the query
    may attend to, not only over the listed ones. All tuples are visited, one block at a time, so that the memory for
    the result and a few blocks suffices at any length.

    Args:
        query: The queries, (..., L_q, d).
        keys: The key sets, (..., L_m, d) each, or one tensor for order 2.
        k: The number of tuples to list for each query.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa`, as in
            `tensor_attention`.

    Returns:
        The indices of the tuples, their weights and the log-sum-exp, `TopTuples`. Weights and log-sum-exp are float64
        for float64 and float32 for all other dtypes. Tuples with equal computed scores are in lexicographic order.
        There are no gradients.

    Raises:
        ArgumentError: If an argument is not as described above, or an entry of a key that may be attended is not
            finite.
        SeparatrixError: If the scores overflow.

    Example:
        >>> import torch
        >>> query = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> keys = [torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), torch.tensor([[4.0, 0.0], [0.0, 1.0]])]
        >>> top = top_tuples(query, keys, k=2)
        >>> top.indices.tolist()  # the first query attends the pair (0, 0) most, the second (2, 1)
        [[[0, 0], [0, 1]], [[2, 1], [1, 1]]]
        >>> [[round(weight, 3) for weight in row] for row in top.weights.tolist()]
        [[0.916, 0.017], [0.749, 0.101]]
    """
    count = whole("k", k, low=1)
    call = checked(query, keys, **options)
    with torch.no_grad(), no_autocast(call.query.device.type):
        answer = _answer(call, count)
    return TopTuples(call.shaped(answer.indices), call.shaped(answer.weights), call.shaped(answer.lse))


def _answer(call: Call, k: int) -> TopTuples:
    """The top tuples of a call with its heads in one dimension."""
    (heads, length, _), sets = call.query.shape, len(call.keys)
    answer = TopTuples(
        torch.full((heads, length, k, sets), -1, dtype=torch.int64, device=call.query.device),
        torch.zeros(heads, length, k, dtype=call.computed_in, device=call.query.device),
        torch.full((heads, length), -math.inf, dtype=call.computed_in, device=call.query.device),
    )
    if call.is_empty:
        return answer
    rows, together, size = cut(call, length, listed=min(k, math.prod(call.key_lengths)))
    for start in range(0, heads, together):
        stop = min(start + together, heads)
        part = of_heads(call, (start, stop))
        for first in range(0, length, rows):
            queries = (first, min(first + rows, length))
            box = _box(call, queries)
            if all(low < high for low, high in box):
                _fill(answer, part, (start, stop), queries, box, size)
    return answer


def _box(call: Call, queries: Range) -> list[Range]:
    """For each key set the shortest range that contains every key which one of these queries may attend."""
    first, last = queries[0], queries[1] - 1
    visible, lengths = call.positions.visible, call.key_lengths
    return [(visible(m, first, length)[0], visible(m, last, length)[1]) for m, length in enumerate(lengths)]


def _fill(answer: TopTuples, call: Call, heads: Range, queries: Range, box: Sequence[Range], size: int) -> None:
    """Write the top tuples of a range of queries of a range of heads; `box` has the range of keys of each set."""
    count, device = heads[1] - heads[0], call.query.device
    listed = min(answer.weights.shape[-1], math.prod(stop - start for start, stop in box))
    index = torch.arange(*queries, device=device)
    best = torch.full((count, len(index), listed), -math.inf, dtype=call.query.dtype, device=device)
    places = torch.zeros(best.shape, dtype=torch.int64, device=device)
    log_sum = LogSum.empty(count, len(index), device)
    for block in blocks(call, index, box, size):
        largest = block.scores.amax(-1)
        better = largest > best[..., -1]  # of equal scores, the earlier tuple is kept
        if len(rows := true_places(better)):
            scores, at = first_largest(block.scores.flatten(0, 1)[rows], listed)
            scores = torch.cat([best.flatten(0, 1)[rows], scores], -1)
            at = torch.cat([places.flatten(0, 1)[rows], at + block.start], -1)
            ranked = scores.sort(dim=-1, descending=True, stable=True).indices[:, :listed]
            best.view(-1, listed)[rows], places.view(-1, listed)[rows] = (
                scores.gather(-1, ranked),
                at.gather(-1, ranked),
            )
        log_sum.add(block.scores, largest)
    there = best > -math.inf
    indices = torch.stack(unravelled(places, box), -1).masked_fill(~there.unsqueeze(-1), -1)
    at_heads, at_queries = slice(*heads), slice(*queries)
    answer.indices[at_heads, at_queries, :listed] = indices
    answer.weights[at_heads, at_queries, :listed] = log_sum.share(best).to(answer.weights.dtype)
    answer.lse[at_heads, at_queries] = log_sum.value().to(answer.lse.dtype)


def first_largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each row of a matrix, ordered by index; of equal entries, those with the lowest index.

    Returns:
        The entries and their indices, (rows, k) or, if there are fewer, all.

    Example:
        >>> first_largest(torch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)[1].tolist()
        [[1, 2]]
    """
    if k >= x.shape[1]:
        return x, torch.arange(x.shape[1], device=x.device).expand(x.shape)
    largest, places = x.topk(k + 1)
    last, places = largest[:, k - 1 : k], places[:, :k].sort(-1).values
    tied = largest[:, k] == last[:, 0]  # among equal entries topk would choose arbitrary ones
    if len(ties := true_places(tied)):
        rows, least = x[ties], last[ties]
        above, equal = rows > least, rows == least
        room = k - above.sum(-1, keepdim=True)
        chosen = above | (equal & (equal.cumsum(-1) <= room))
        places[ties] = chosen.to(torch.uint8).sort(dim=-1, descending=True, stable=True).indices[:, :k]
    return x.gather(-1, places), places


def true_places(x: Tensor) -> Tensor:
    """The indices of the True entries of a flattened bool tensor.

    The entries are read on the host, so that all shapes are known there.

    >>> true_places(torch.tensor([[True, False], [False, True]]))
    tensor([0, 3])
    """
    places = [place for place, is_true in enumerate(numbers(x.flatten())) if is_true]
    return torch.tensor(places, dtype=torch.int64, device=x.device)
