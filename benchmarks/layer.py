"""The bounded layer: causal against non-causal, forward and backward, and against the time of its multiply-adds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.roofline import multiply_add_seconds
from benchmarks.timing import alternate

N, HEADS, D = 4096, 8, 8


def rows() -> list[Row]:
    """Order 3, 8 heads of 8 columns, entries bounded by 1, within 1e-3: a sequence of 4096 tokens."""
    torch.manual_seed(0)
    layer = sx.nn.TensorAttention(HEADS * D, HEADS, bound=1.0, tolerance=1e-3)
    x = torch.randn(1, N, HEADS * D)

    @torch.no_grad()
    def forward(is_causal: bool) -> Tensor:
        return layer(x, is_causal=is_causal)

    def trained(is_causal: bool) -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(x, is_causal=is_causal).sum(), list(layer.parameters()))

    def times(run: Callable[[bool], object]) -> tuple[float, float]:
        best = alternate({"causal": lambda: run(True), "not causal": lambda: run(False)}, seconds=6.0)
        return best["causal"], best["not causal"]

    what = f"n = {N}, {HEADS} heads, d = {D}"
    rank = layer.plan.rank
    note = f"rank {rank}"
    causal, whole = times(forward)
    # For each monomial, and each column of the values and one more for the weights, a token is added to two running
    # sums, whose product is multiplied by the query's monomial and added to the output. The sums are in float64.
    multiply_adds = multiply_add_seconds(N * HEADS * rank * 4 * (D + 1), torch.float64)
    causal_trained, whole_trained = times(trained)
    return [
        Row(f"causal, forward, {what}", causal, "itself, not causal", whole, 2.0, note=note),
        Row(f"causal, forward, {what}", causal, "its multiply-adds in registers", multiply_adds, 3.0, note=note),
        Row(f"causal, with backward, {what}", causal_trained, "itself, not causal", whole_trained, 3.0, note=note),
    ]
