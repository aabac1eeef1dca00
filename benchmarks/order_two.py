"""Order 2 within 1e-3: certified attention against exact attention, and `auto` against the better certified method.

Inputs have one head and normal entries with standard deviation 0.5. Exact attention without a certificate is computed
by our kernels or, at d above 32 with AVX2, by PyTorch's fused kernel. A certified method that is much slower than the
other one is not run at the next length, which is four times as long: exact attention then takes 16 times as long and
the polynomial method four times.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.timing import alternate

LENGTHS = (256, 1024, 4096, 16384, 65536)
WIDTHS = (8, 16, 32)
TOLERANCE = 1e-3
OF_EXACT, OF_LONG_CAUSAL, OF_BETTER = 1.05, 0.3, 1.1
"""The targets: certified of exact attention, causal from 16,384 tokens on, and `auto` of the better method."""
BEHIND = {"exact": 2.0, "polynomial": 8.0}
"""The factor by which a method must be slower than the other at one length to be slower at the next length, too."""


def draw(n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """A query, a key and a value of one head."""
    query, key, value = 0.5 * torch.randn(3, 1, 1, n, d, generator=torch.Generator().manual_seed(0))
    return query, key, value


@torch.no_grad()
def rows_of(n: int, d: int, is_causal: bool, methods: set[str], *, seconds: float = 1.0) -> list[Row]:
    """Return both rows of a size; remove a certified method from `methods` if it is slower at longer sequences too."""
    inputs = draw(n, d)
    certified = partial(sx.certified_attention, *inputs, tolerance=TOLERANCE, is_causal=is_causal)
    try:
        certified(method="polynomial") if "polynomial" in methods else None
    except sx.SeparatrixError:  # no degree within the limits satisfies the tolerance
        methods.remove("polynomial")
    best = alternate(
        {
            "": partial(sx.tensor_attention, *inputs, is_causal=is_causal),
            "auto": certified,
            **{method: partial(certified, method=method) for method in methods},
        },
        seconds=seconds,
        rounds=1,
    )
    plan = sx.plan_attention(*inputs, tolerance=TOLERANCE, is_causal=is_causal)
    least = min(best[method] for method in methods)
    methods -= {method for method in methods if best[method] > BEHIND[method] * least}
    name = f"order 2{' causal' if is_causal else ''}, n = {n}, d = {d}, 1e-3"
    note = plan.method if plan.rank is None else f"{plan.method}, rank {plan.rank}"
    target = OF_LONG_CAUSAL if is_causal and n >= 16384 and d <= 16 else OF_EXACT
    return [
        Row(name, best["auto"], "exact attention, no certificate", best[""], target, note=note),
        Row(name, best["auto"], "the better method, certified", least, OF_BETTER, note=note),
    ]


def rows() -> Iterator[Row]:
    for d, is_causal in product(WIDTHS, (False, True)):
        methods = set(BEHIND)
        for n in LENGTHS:
            yield from rows_of(n, d, is_causal, methods)
