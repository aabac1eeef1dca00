"""Short sequences, order 3: the worst ratio over head dimensions and numbers of heads, against the best peer.

The peers are PyTorch's fused attention over all pairs of keys, and the einsum, which autograd differentiates;
FlexAttention, which takes many seconds to compile for each size, is in the table of exact attention at a few sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import median

import torch

import separatrix as sx
from benchmarks import Row
from benchmarks.exact import (
    EINSUM,
    MATERIALISED,
    OURS,
    Attend,
    draw,
    gradients,
    masked_einsum,
    masked_materialised,
    materialised,
    naive,
)
from benchmarks.timing import alternate

LENGTHS = (4, 8, 16, 32, 64)
WIDTHS = (8, 16, 32, 64)
HEADS = (1, 32, 1024)
MOST_ENTRIES = 1 << 25
"""Calls for which the fused peer would materialise more entries of keys are left out: they are not short."""
AT_MOST = 0.95
AGAIN = 3


def sizes(n: int) -> list[tuple[int, int]]:
    """The head dimensions and numbers of heads for a length."""
    return [(d, heads) for d, heads in product(WIDTHS, HEADS) if heads * n * n * d <= MOST_ENTRIES]


def times(n: int, d: int, heads: int, is_causal: bool, backward: bool, *, seconds: float = 0.2) -> dict[str, float]:
    """The best time of our call and of each peer."""
    inputs = draw(3, n, d, heads)
    fused, einsum = (masked_materialised, masked_einsum) if is_causal else (materialised, naive)
    ours = partial(sx.tensor_attention, is_causal=is_causal)
    attends: dict[str, Attend] = {OURS: ours, MATERIALISED: fused, EINSUM: einsum}
    if backward:
        return alternate(
            {name: gradients(attend, inputs) for name, attend in attends.items()}, seconds=seconds, rounds=3
        )
    with torch.no_grad():
        return alternate(
            {name: partial(attend, *inputs) for name, attend in attends.items()}, seconds=seconds, rounds=3
        )


def worst(n: int, is_causal: bool, backward: bool) -> Row:
    """The row of the size with the worst ratio.

    The worst of many measurements was probably disturbed by other processes, so it is repeated with more rounds, at
    most `AGAIN` times, and the best time of each function is used.
    """
    measured = {size: times(n, *size, is_causal, backward) for size in sizes(n)}

    def ratio(size: tuple[int, int]) -> float:
        return measured[size][OURS] / min(took for name, took in measured[size].items() if name != OURS)

    again: set[tuple[int, int]] = set()
    while (size := max(measured, key=ratio)) not in again and len(again) < AGAIN:
        longer = times(n, *size, is_causal, backward, seconds=1.0)
        measured[size] = {name: min(took, longer[name]) for name, took in measured[size].items()}
        again.add(size)
    (d, heads), best, middle = size, measured[size], median(map(ratio, measured))
    peer = min((name for name in best if name != OURS), key=best.__getitem__)
    name = f"order 3{' causal' if is_causal else ''}{' forward + backward' if backward else ''}, n = {n}"
    note = f"the worst of {len(measured)}: d = {d}, {heads} heads, {peer}; the median is {middle:.2f}"
    return Row(name, best[OURS], "the best peer", best[peer], AT_MOST, note=note)


def rows() -> Iterator[Row]:
    for n, is_causal, backward in product(LENGTHS, (False, True), (False, True)):
        yield worst(n, is_causal, backward)
