"""Time against length at order 3: exact and near-linear attention, causal and non-causal, peers, and `auto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.exact import in_blocks, masked_einsum, materialised
from benchmarks.polynomial import uniform
from benchmarks.timing import alternate

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 262144, 1_000_000)
WIDTH, TOLERANCE = 8, 1e-3
LONGEST = 1.0
"""Seconds: a method that took longer is not run on longer sequences."""
ROWS = 1 << 18
"""Key tuples of which the materialised peer may hold the rows."""

EXACT, CERTIFIED_EXACT, NEAR_LINEAR, AUTO = "exact", "exact with a certificate", "near-linear", "auto"
MATERIALISED, IN_BLOCKS, EINSUM = "fused attention, materialised", "fused attention, in blocks", "einsum with a mask"

Attend = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], object]


def methods(n: int, is_causal: bool) -> dict[str, Attend]:
    """The methods that can run at a length."""
    certified = partial(sx.certified_attention, tolerance=TOLERANCE, is_causal=is_causal)
    found: dict[str, Attend] = {
        EXACT: partial(sx.tensor_attention, is_causal=is_causal),
        CERTIFIED_EXACT: partial(certified, method="exact"),
        NEAR_LINEAR: partial(certified, method="polynomial"),
        AUTO: certified,
    }
    if is_causal:
        return found | ({EINSUM: masked_einsum} if n <= 256 else {})
    return found | {IN_BLOCKS: in_blocks(1 << 14)} | ({MATERIALISED: materialised} if n * n <= ROWS else {})


@torch.no_grad()
def curve(is_causal: bool, *, seconds: float = 1.0) -> list[Row]:
    """The times of all methods at all lengths that they support."""
    kind, rows, too_long = "causal" if is_causal else "not causal", [], set()
    for n in LENGTHS:
        query, keys, values = uniform(n, WIDTH)
        inputs = (query[None, None], [x[None, None] for x in keys], [x[None, None] for x in values])
        here = {
            name: partial(attend, *inputs) for name, attend in methods(n, is_causal).items() if name not in too_long
        }
        best = alternate(here, seconds=seconds, rounds=2)
        too_long |= {name for name, took in best.items() if took > LONGEST}
        cheaper = min(best[name] for name in (CERTIFIED_EXACT, NEAR_LINEAR) if name in best)
        for name, took in best.items():
            peer = ("the cheaper of both, certified", cheaper, 1.1) if name == AUTO else ("", None, None)
            rows.append(Row(f"{name}, {kind}, n = {n}", took, *peer))
    return rows


def rows() -> list[Row]:
    return [row for is_causal in (False, True) for row in curve(is_causal)]
