"""The weights that one query gives to all pairs of keys, at order 3, with their sums along either side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call
from separatrix.attention.weights.chosen_queries import weights_of
from separatrix.attention.weights.drawing import svg
from separatrix.attention.weights.scores import checked
from separatrix.attention.weights.top_tuples import first_largest
from separatrix.checks import whole
from separatrix.errors import ArgumentError

CELLS = 256
"""The largest number of cells along a side of a map: in longer key sets a cell is the sum over several keys."""


@dataclass(frozen=True)
class PairMap:
    """The weights that one query gives to all pairs of keys, at order 3; a notebook shows them as a picture.

    Attributes:
        query: The index of the query.
        cells: The sums of the weights in each cell, (rows, columns), in float64. A row is one key, or several
            consecutive keys, of the first set; a column is the same for the second set. The cells add up to 1, or to 0
            if the query may attend to no pair.
        keys_per_cell: The numbers of keys of the first and of the second set in a cell; the last cell may have fewer.
        first: The weight of each key of the first set, summed over all keys of the second, (L_1,), in float64.
        second: The weight of each key of the second set, (L_2,), in float64.
        top: The pairs of largest weight, in decreasing order: the key of the first set, the key of the second set, and
            the weight.
    """

    query: int
    cells: Tensor
    keys_per_cell: tuple[int, int]
    first: Tensor
    second: Tensor
    top: tuple[tuple[int, int, float], ...]

    def _repr_svg_(self) -> str:
        """The map as an SVG picture with a transparent background, which IPython and Jupyter display."""
        return svg(self.query, self.cells, self.keys_per_cell, (self.first, self.second), self.top)


def pair_map(
    query: Tensor,
    keys: Sequence[Tensor],
    at: int,
    *,
    head: int | Sequence[int] = (),
    k: int = 10,
    **options: Unpack[CallOptions],
) -> PairMap:
    """The map of the weights that one query gives to all pairs of keys, at order 3.

    A notebook shows the result as a picture: the map, the sums along both sides, and the pairs of largest weight.
    ``Path("map.svg").write_text(weights._repr_svg_())`` writes it to a file.

    Args:
        query: The queries, (..., L_q, d).
        keys: The two key sets, (..., L_m, d) each.
        at: The index of the query, from -L_q to L_q - 1; a negative one counts from the end.
        head: The index of the head in the broadcast leading dimensions: an integer for one dimension, a tuple for
            several; it may be left out if there is only one head.
        k: The number of pairs of largest weight to list.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa`, as in
            `tensor_attention`.

    Returns:
        The map, a `PairMap`.

    Raises:
        ArgumentError: If an argument is not as described above, or an entry of a key that may be attended is not
            finite.
        SeparatrixError: If the scores overflow.

    Example:
        >>> import torch
        >>> x = torch.randn(3, 2, 40, 8, generator=torch.Generator().manual_seed(0))
        >>> weights = pair_map(x[0], [x[1], x[2]], at=5, head=1)
        >>> weights.cells.shape, round(weights.cells.sum().item(), 6)
        (torch.Size([40, 40]), 1.0)
        >>> weights._repr_svg_().startswith("<svg")
        True
    """
    listed = whole("k", k, low=1)
    call = checked(query, keys, **options)
    if call.order != 3:
        raise ArgumentError("keys", expected="two key sets (order 3)", got=str(len(call.keys)))
    length = call.query.shape[1]
    if not length or 0 in call.key_lengths:
        raise ArgumentError("query" if not length else "keys", expected="at least one token", got="length 0")
    place = whole("at", at, low=-length, high=length - 1) % length
    of_head = _head(call, head)
    with torch.no_grad(), no_autocast(call.query.device.type):
        weights = weights_of(of_head, [place])[0, 0].unflatten(0, call.key_lengths)
        return mapped(place, weights, listed)


def mapped(query: int, weights: Tensor, listed: int) -> PairMap:
    """The map of the weights (L_1, L_2) of a query."""
    columns = weights.shape[1]
    steps = tuple(-(-length // CELLS) for length in weights.shape)
    cells = _added(_added(weights.to(torch.float64), 0, steps[0]), 1, steps[1])
    largest, places = first_largest(weights.reshape(1, -1), min(listed, weights.numel()))
    ranked = largest[0].sort(dim=0, descending=True, stable=True).indices
    top = tuple(
        (place // columns, place % columns, weight)
        for place, weight in zip(places[0, ranked].tolist(), largest[0, ranked].tolist(), strict=True)
        if weight > 0
    )
    first, second = weights.sum(1, dtype=torch.float64), weights.sum(0, dtype=torch.float64)
    return PairMap(query, cells, (steps[0], steps[1]), first, second, top)


def _added(x: Tensor, dim: int, step: int) -> Tensor:
    """Sums of `step` consecutive entries along a dimension of a matrix; the last sum may have fewer."""
    if step == 1:
        return x
    return torch.stack([part.sum(dim) for part in x.split(step, dim)], dim)


def _head(call: Call, head: object) -> Call:
    """The call of one head."""
    batch = call.batch or ()
    count = math.prod(batch)
    if count == 0:
        raise ArgumentError("query", expected="at least one head", got=f"leading dimensions {tuple(batch)}")
    given = list(head) if isinstance(head, (list, tuple)) else [head]
    if not given and count == 1:
        given = [0] * len(batch)
    if len(given) != len(batch):
        got = head if isinstance(head, (list, tuple)) else repr(head)
        raise ArgumentError("head", expected=f"an index for each of the leading dimensions {tuple(batch)}", got=got)
    flat = 0
    for index, size in zip(given, batch, strict=True):
        flat = flat * size + whole("head", index, low=-size, high=size - 1) % size
    return call.of_heads((flat, flat + 1))
