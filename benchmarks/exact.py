"""Exact attention: order 3 against its peers and the roofline, causal, orders 2 and 4, gradients, memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

import separatrix as sx
from benchmarks import Row, roofline
from benchmarks.timing import alternate, peak_bytes
from separatrix.attention.reference import column_kronecker

Inputs = tuple[Tensor, list[Tensor], list[Tensor]]
Attend = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], Tensor]

OURS = "tensor_attention"
MATERIALISED = "fused attention, materialised"
IN_BLOCKS = "fused attention, in blocks"
BLOCKS = (1 << 12, 1 << 14, 1 << 16)
"""Key tuples in a block of the blocked peer: the best of these counts, for each shape anew."""
OF_ROOFLINE = 0.75
"""The share of the roofline to reach at order 3 and n >= 512."""
OF_WINDOWS = 0.6
"""The share of the roofline to reach with windows, by the tuples that they allow."""
EINSUM_LIMIT = 8 << 30
MEMORY_LIMIT = 64 << 20


def draw(order: int, n: int, d: int, heads: int = 1) -> Inputs:
    """A query, keys and values of normal entries in float32, each (1, heads, n, d)."""
    generator = torch.Generator().manual_seed(0)
    query, *sets = torch.randn(2 * order - 1, 1, heads, n, d, generator=generator)
    return query, sets[: order - 1], sets[order - 1 :]


def naive(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """Order 3 as one would write it first: all scores, their softmax, the weighted sum."""
    S = torch.einsum("...il,...jl,...kl->...ijk", query, *keys) / query.shape[-1]
    P = torch.softmax(S.flatten(-2), -1).view_as(S)
    return torch.einsum("...ijk,...jl,...kl->...il", P, *values)


def naive_bytes(n: int, d: int) -> int:
    """What `naive` holds at once for one head: the scores, their softmax and a copy for the product, and n^2 d more."""
    return 4 * n * n * (3 * n + d)


def materialised(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """PyTorch's fused attention over the rows of the column-wise Kronecker products; building them counts."""
    K, V = column_kronecker(*keys), column_kronecker(*values)
    return F.scaled_dot_product_attention(query, K, V, scale=1 / query.shape[-1])


def in_blocks(block: int) -> Attend:
    """The same for about `block` key tuples at a time, some rows of the last sets times all others', merged by LSE."""

    def attend(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
        K, V = column_kronecker(*keys[:-1]), column_kronecker(*values[:-1])
        step = max(1, block // K.shape[-2])
        parts = zip(keys[-1].split(step, -2), values[-1].split(step, -2), strict=True)
        out, lse = torch.zeros_like(query), query.new_full(query.shape[:-1], -math.inf)
        for key, value in parts:
            new, new_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                query, column_kronecker(K, key), column_kronecker(V, value), scale=1 / query.shape[-1]
            )
            total = torch.logaddexp(lse, new_lse)
            out = out * torch.exp(lse - total).unsqueeze(-1) + new * torch.exp(new_lse - total).unsqueeze(-1)
            lse = total
        return out

    return attend


def _blocked_peers(order: int, n: int) -> dict[str, Attend]:
    """The blocked peers that differ: a block holds at least one row of the last set and at most all."""
    steps = {min(n, max(1, block // n ** (order - 2))): block for block in BLOCKS}
    return {f"{step * n ** (order - 2)} tuples a block": in_blocks(block) for step, block in steps.items()}


def _on(attends: dict[str, Attend], inputs: Inputs) -> dict[str, Callable[[], object]]:
    return {name: partial(attend, *inputs) for name, attend in attends.items()}


@torch.no_grad()
def forward(order: int, n: int, d: int, *, seconds: float = 10.0) -> list[Row]:
    """One head, against every peer and the roofline."""
    name, inputs, blocked = f"order {order}, n = {n}, d = {d}", draw(order, n, d), _blocked_peers(order, n)
    limit = roofline.attention_seconds(n**order, d)
    best = alternate(_on({OURS: sx.tensor_attention, MATERIALISED: materialised, **blocked}, inputs), seconds=seconds)
    limit = min(limit, roofline.attention_seconds(n**order, d))
    naive_rows = []
    if order == 3:
        einsum, note = None, f"not run: it needs {naive_bytes(n, d) / 2**30:.1f} GiB"
        if naive_bytes(n, d) < EINSUM_LIMIT:  # apart from the others, for it is slow: three rounds will do
            again = alternate(_on({OURS: sx.tensor_attention, "einsum": naive}, inputs), seconds=0.0, rounds=3)
            best[OURS], einsum, note = min(best[OURS], again[OURS]), again["einsum"], ""
        naive_rows = [Row(name, best[OURS], "einsum", einsum, 1.0, note=note)]
    winner, share = min(blocked, key=best.__getitem__), OF_ROOFLINE if order == 3 and n >= 512 else None
    most = _of_peers() if share else 0.95
    note = f"{limit / best[OURS]:.2f} of the roofline" + (f", to reach {share}" if share else "")
    return [
        *naive_rows,
        Row(name, best[OURS], MATERIALISED, best[MATERIALISED], most),
        Row(name, best[OURS], IN_BLOCKS, best[winner], most, note=f"its best: {winner}"),
        Row(name, best[OURS], "roofline", limit, share and 1 / share, note=note),
    ]


def _of_peers() -> float:
    """What long calls are to take of the time of PyTorch's fused kernels, which AVX-512 helps more than AVX2 does."""
    return 0.8 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 0.65


@torch.no_grad()
def short(n: int, d: int, heads: int, *, seconds: float = 2.0) -> Row:
    """Short sequences of several heads, against the better of both peers."""
    attends = {OURS: sx.tensor_attention, MATERIALISED: materialised, **_blocked_peers(3, n)}
    best = alternate(_on(attends, draw(3, n, d, heads)), seconds=seconds)
    peer = min((name for name in best if name != OURS), key=best.__getitem__)
    note = "" if peer == MATERIALISED else f"in blocks: {peer}"
    return Row(f"order 3, n = {n}, d = {d}, {heads} heads", best[OURS], "the best peer", best[peer], 0.95, note=note)


@torch.no_grad()
def overhead(n: int, d: int, *, seconds: float = 2.0) -> Row:
    """A call that has next to nothing to compute, against a tenth of a millisecond."""
    best = alternate(_on({OURS: sx.tensor_attention}, draw(3, n, d)), seconds=seconds)
    return Row(f"order 3, n = {n}, d = {d}: the call itself", best[OURS], "100 microseconds", 1e-4, 1.0)


@torch.no_grad()
def windowed(n: int, d: int, heads: int, windows: tuple[int, int], *, seconds: float = 5.0) -> Row:
    """Windows, against the roofline of the tuples that they allow."""
    allowed = sum(min(i + 1, windows[0]) * min(i + 1, windows[1]) for i in range(n))
    limit = roofline.attention_seconds(heads * allowed, d)
    best = alternate(_on({OURS: partial(sx.tensor_attention, windows=windows)}, draw(3, n, d, heads)), seconds=seconds)
    name = f"order 3, windows {windows[0]} x {windows[1]}, n = {n}, d = {d}, {heads} heads"
    note = f"{limit / best[OURS]:.2f} of the roofline, to reach {OF_WINDOWS}"
    return Row(name, best[OURS], "roofline", limit, 1 / OF_WINDOWS, note=note)


@torch.no_grad()
def causal(n: int, d: int, *, seconds: float = 5.0) -> Row:
    """Order 3 with and without causality: the causal volume is a third."""
    inputs = draw(3, n, d)
    attends = {"causal": partial(sx.tensor_attention, is_causal=True), "full": sx.tensor_attention}
    best = alternate(_on(attends, inputs), seconds=seconds)
    return Row(f"order 3 causal, n = {n}, d = {d}", best["causal"], "itself, not causal", best["full"], 0.4)


@torch.no_grad()
def order_two(n: int, d: int, heads: int, *, seconds: float = 4.0) -> Row:
    """PyTorch's own attention, through our call and without it."""
    query, (key,), (value,) = draw(2, n, d, heads)
    functions: dict[str, Callable[[], object]] = {
        OURS: lambda: sx.tensor_attention(query, key, value, scale=1 / d),
        "torch": lambda: F.scaled_dot_product_attention(query, key, value, scale=1 / d),
    }
    best = alternate(functions, seconds=seconds)
    name = f"order 2, n = {n}, d = {d}, {heads} heads"
    return Row(name, best[OURS], "scaled_dot_product_attention", best["torch"], 1.05)


def gradients(attend: Attend, inputs: Inputs) -> Callable[[], tuple[Tensor, ...]]:
    """A call that runs `attend` forward and backward, to the gradients of query, keys and values."""
    query, keys, values = inputs
    leaves = [x.clone().requires_grad_() for x in (query, *keys, *values)]

    def call() -> tuple[Tensor, ...]:
        out = attend(leaves[0], leaves[1 : len(keys) + 1], leaves[len(keys) + 1 :])
        return torch.autograd.grad(out, leaves, query)  # any tensor of the output's shape: the query is at hand

    return call


def backward(n: int, d: int, heads: int, *, seconds: float = 10.0) -> list[Row]:
    """Order 3 forward and backward, time and memory, against autograd through the materialised peer."""
    inputs, name = draw(3, n, d, heads), f"order 3 forward + backward, n = {n}, d = {d}, {heads} heads"
    functions = {OURS: gradients(sx.tensor_attention, inputs), MATERIALISED: gradients(materialised, inputs)}
    best = alternate(functions, seconds=seconds)
    return [Row(name, best[OURS], MATERIALISED, best[MATERIALISED], 0.5), *_memory(name, functions)]


def causal_backward(n: int, d: int, heads: int, *, seconds: float = 5.0) -> Row:
    """Order 3 forward and backward, with and without causality."""
    inputs = draw(3, n, d, heads)
    attends = {"causal": partial(sx.tensor_attention, is_causal=True), "full": sx.tensor_attention}
    best = alternate({name: gradients(attend, inputs) for name, attend in attends.items()}, seconds=seconds)
    name = f"order 3 causal forward + backward, n = {n}, d = {d}, {heads} heads"
    return Row(name, best["causal"], "itself, not causal", best["full"], 0.4)


@torch.no_grad()
def memory(n: int, d: int) -> list[Row]:
    """The extra memory of order 3 forward."""
    functions = _on({OURS: sx.tensor_attention, MATERIALISED: materialised}, draw(3, n, d))
    return _memory(f"order 3, n = {n}, d = {d}", functions)


def _memory(name: str, functions: Mapping[str, Callable[[], object]]) -> list[Row]:
    held = {which: peak_bytes(function) for which, function in functions.items()}
    name = f"extra memory, {name}"
    return [
        Row(name, held[OURS], f"a limit of {MEMORY_LIMIT >> 20} MiB", MEMORY_LIMIT, 1.0, "B"),
        Row(name, held[OURS], MATERIALISED, held[MATERIALISED], unit="B"),
    ]


def rows() -> list[Row]:
    return [
        *(row for n in (256, 512, 1024) for d in (16, 32, 64) for row in forward(3, n, d)),
        *(short(n, d, heads) for n, heads in ((64, 1), (64, 8), (64, 64), (128, 8), (256, 8)) for d in (16, 64)),
        overhead(8, 16),
        *(causal(512, d) for d in (16, 64)),
        windowed(2048, 64, 4, (512, 32)),
        *backward(256, 64, 4),
        causal_backward(256, 64, 4),
        *memory(1024, 64),
        *forward(4, 128, 16),
        *(order_two(n, 64, heads) for n, heads in ((64, 4), (256, 1), (256, 4), (1024, 4))),
    ]
