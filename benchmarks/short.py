"""Short sequences, order 3: the worst ratio over head dimensions and numbers of heads, against the best peer.

The peers are PyTorch's fused attention over all pairs of keys, and the einsum, which autograd differentiates; the table
of exact attention has a few sizes with FlexAttention, which takes many seconds to compile for each.
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


def rows() -> Iterator[Row]:
    for n, is_causal, backward in product(LENGTHS, (False, True), (False, True)):
        ratios = {}
        for d, heads in sizes(n):
            best = times(n, d, heads, is_causal, backward)
            ours, peer = best.pop(OURS), min(best, key=best.__getitem__)
            ratios[d, heads] = (ours / best[peer], ours, best[peer], peer)
        (d, heads), (_, ours, theirs, peer) = max(ratios.items(), key=lambda size: size[1][0])
        middle = median(ratio for ratio, *_ in ratios.values())
        note = f"the worst of {len(ratios)}: d = {d}, {heads} heads, {peer}; the median is {middle:.2f}"
        name = f"order 3{' causal' if is_causal else ''}{' forward + backward' if backward else ''}, n = {n}"
        yield Row(name, ours, "the best peer", theirs, AT_MOST, note=note)
