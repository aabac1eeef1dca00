"""Exact attention: order 3 against its peers and the roofline, short and causal, orders 2 and 4, gradients, memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import separatrix as sx
from benchmarks import Row, roofline
from benchmarks.timing import alternate, peak_bytes
from separatrix.attention.reference import column_kronecker
from separatrix.native import native

Inputs = tuple[Tensor, list[Tensor], list[Tensor]]
Attend = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], Tensor]

OURS = "tensor_attention"
MATERIALISED = "fused attention, materialised"
IN_BLOCKS = "fused attention, in blocks"
EINSUM = "einsum"
FLEX = "FlexAttention, compiled"
LONGEST_FLEX = 32
"""The longest sequences for which FlexAttention is compiled, which takes many seconds for each shape."""
SHORT = ((8, 8, 256), (16, 16, 32), (16, 64, 4), (32, 16, 4), (32, 64, 4))
"""Lengths, head dimensions and heads of short sequences, which the overhead of a call and of a head decides."""
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
    """A straightforward order 3: all scores, their softmax, the weighted sum."""
    S = torch.einsum("...il,...jl,...kl->...ijk", query, *keys) / query.shape[-1]
    P = torch.softmax(S.flatten(-2), -1).view_as(S)
    return torch.einsum("...ijk,...jl,...kl->...il", P, *values)


def attended_pairs(n: int) -> Tensor:
    """Which pairs (j_1, j_2), at index j_1 n + j_2, each of n queries attends in causal attention, (n, n^2)."""
    positions, pairs = torch.arange(n).unsqueeze(1), torch.arange(n * n)
    return torch.maximum(pairs // n, pairs % n) <= positions


def masked_einsum(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """A straightforward causal attention of order 3: all scores, a mask, their softmax, the weighted sum."""
    n = query.shape[-2]
    S = torch.einsum("...il,...jl,...kl->...ijk", query, *keys) / query.shape[-1]
    P = torch.softmax(S.flatten(-2).masked_fill(~attended_pairs(n), -torch.inf), -1).view_as(S)
    return torch.einsum("...ijk,...jl,...kl->...il", P, *values)


def naive_bytes(n: int, d: int) -> int:
    """The peak memory of `naive` for one head: the scores, their softmax, a copy for the product, and n^2 d numbers."""
    return 4 * n * n * (3 * n + d)


def materialised(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """PyTorch's fused attention over the column-wise Kronecker products; the time includes computing these products."""
    K, V = column_kronecker(*keys), column_kronecker(*values)
    return F.scaled_dot_product_attention(query, K, V, scale=1 / query.shape[-1])


def masked_materialised(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """PyTorch's fused attention over all pairs with a causal mask; the time includes building the mask."""
    K, V = column_kronecker(*keys), column_kronecker(*values)
    mask = attended_pairs(query.shape[-2])
    return F.scaled_dot_product_attention(query, K, V, attn_mask=mask, scale=1 / query.shape[-1])


def flex(n: int, is_causal: bool) -> Attend:
    """PyTorch's FlexAttention over all pairs of n keys, compiled, with a block mask that is not part of the time."""
    torch._dynamo.reset()  # after eight shapes PyTorch would no longer compile it
    compiled = torch.compile(flex_attention, dynamic=False)

    def attends(batch: Tensor, head: Tensor, query: Tensor, pair: Tensor) -> Tensor:
        return torch.maximum(pair // n, pair % n) <= query

    block_mask = create_block_mask(attends, None, None, n, n * n, device="cpu") if is_causal else None

    def attend(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
        K, V = column_kronecker(*keys), column_kronecker(*values)
        return compiled(query, K, V, block_mask=block_mask, scale=1 / query.shape[-1])  # type: ignore[no-any-return]

    return attend


def in_blocks(block: int) -> Attend:
    """PyTorch's fused attention over blocks of about `block` key tuples, merged by their log-sum-exp."""

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
    """The blocked peers without duplicates: a block holds at least one row of the last set and at most all rows."""
    steps = {min(n, max(1, block // n ** (order - 2))): block for block in BLOCKS}
    return {f"{step * n ** (order - 2)} tuples a block": in_blocks(block) for step, block in steps.items()}


def _on(attends: dict[str, Attend], inputs: Inputs) -> dict[str, Callable[[], object]]:
    return {name: partial(attend, *inputs) for name, attend in attends.items()}


@torch.no_grad()
def forward(order: int, n: int, d: int, *, seconds: float = 5.0) -> list[Row]:
    """The rows of calls with one head, against every peer and the roofline."""
    name, inputs, blocked = f"order {order}, n = {n}, d = {d}", draw(order, n, d), _blocked_peers(order, n)
    limit = roofline.attention_seconds(n**order, d)
    best = alternate(_on({OURS: sx.tensor_attention, MATERIALISED: materialised, **blocked}, inputs), seconds=seconds)
    limit = min(limit, roofline.attention_seconds(n**order, d))
    naive_rows = []
    if order == 3:
        einsum, note = None, f"not run: it needs {naive_bytes(n, d) / 2**30:.1f} GiB"
        if naive_bytes(n, d) < EINSUM_LIMIT:  # timed separately in three rounds, because it is slow
            again = alternate(_on({OURS: sx.tensor_attention, EINSUM: naive}, inputs), seconds=0.0, rounds=3)
            best[OURS], einsum, note = min(best[OURS], again[OURS]), again[EINSUM], ""
        naive_rows = [Row(name, best[OURS], EINSUM, einsum, 1.0, note=note)]
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
    """The target ratio of long calls to PyTorch's fused kernels, which gain more from AVX-512 than from AVX2."""
    return 0.8 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 0.65


@torch.no_grad()
def short(n: int, d: int, heads: int, *, is_causal: bool = False, seconds: float = 2.0) -> Row:
    """Short sequences of several heads, against the best peer."""
    inputs = draw(3, n, d, heads)
    best = alternate(_on(_short_peers(inputs[0].shape[-2], is_causal), inputs), seconds=seconds)
    return _against_the_best(f"order 3{' causal' if is_causal else ''}, n = {n}, d = {d}, {heads} heads", best)


def short_backward(n: int, d: int, heads: int, *, seconds: float = 4.0) -> Row:
    """Short sequences forward and backward, against the best peer that autograd differentiates on the CPU."""
    inputs = draw(3, n, d, heads)
    attends: dict[str, Attend] = {OURS: sx.tensor_attention, MATERIALISED: materialised, EINSUM: naive}
    best = alternate({name: gradients(attend, inputs) for name, attend in attends.items()}, seconds=seconds)
    return _against_the_best(f"order 3 forward + backward, n = {n}, d = {d}, {heads} heads", best)


def _short_peers(n: int, is_causal: bool) -> dict[str, Attend]:
    compiled = {FLEX: flex(n, is_causal)} if n <= LONGEST_FLEX else {}
    if is_causal:
        ours = partial(sx.tensor_attention, is_causal=True)
        return {OURS: ours, MATERIALISED: masked_materialised, EINSUM: masked_einsum, **compiled}
    blocked = {f"{IN_BLOCKS}, {name}": attend for name, attend in _blocked_peers(3, n).items()}
    return {OURS: sx.tensor_attention, MATERIALISED: materialised, EINSUM: naive, **compiled, **blocked}


def _against_the_best(name: str, best: Mapping[str, float]) -> Row:
    peer = min((peer for peer in best if peer != OURS), key=best.__getitem__)
    return Row(name, best[OURS], "the best peer", best[peer], 0.95, note=peer)


@torch.no_grad()
def bfloat16(n: int, d: int, *, seconds: float = 5.0) -> list[Row]:
    """Order 3 in bfloat16 against the same call in float32, and against the blocked peer in bfloat16."""
    query, keys, values = draw(3, n, d)
    half = query.bfloat16(), [x.bfloat16() for x in keys], [x.bfloat16() for x in values]
    blocked, name = _blocked_peers(3, n), f"order 3, bfloat16, n = {n}, d = {d}"
    calls = _on({OURS: sx.tensor_attention, **blocked}, half)
    best = alternate(calls | {"float32": partial(sx.tensor_attention, query, keys, values)}, seconds=seconds)
    winner = min(blocked, key=best.__getitem__)
    return [
        Row(name, best[OURS], "itself, float32", best["float32"], 0.6, note=native().architecture),
        Row(name, best[OURS], IN_BLOCKS, best[winner], _of_peers(), note=f"its best: {winner}"),
    ]


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
    """Order 3 with and without a causal mask, which leaves a third of the tuples."""
    inputs = draw(3, n, d)
    attends = {"causal": partial(sx.tensor_attention, is_causal=True), "full": sx.tensor_attention}
    best = alternate(_on(attends, inputs), seconds=seconds)
    return Row(f"order 3 causal, n = {n}, d = {d}", best["causal"], "itself, not causal", best["full"], 0.4)


@torch.no_grad()
def order_two(n: int, d: int, heads: int, *, is_causal: bool = False, seconds: float = 4.0) -> Row:
    """PyTorch's own attention, called through our function and called directly."""
    query, (key,), (value,) = draw(2, n, d, heads)
    functions: dict[str, Callable[[], object]] = {
        OURS: lambda: sx.tensor_attention(query, key, value, is_causal=is_causal, scale=1 / d),
        "torch": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=1 / d),
    }
    best = alternate(functions, seconds=seconds)
    name = f"order 2{' causal' if is_causal else ''}, n = {n}, d = {d}, {heads} heads"
    return Row(name, best[OURS], "scaled_dot_product_attention", best["torch"], 1.1 if n < 256 else 1.05)


def gradients(attend: Attend, inputs: Inputs) -> Callable[[], tuple[Tensor, ...]]:
    """A call that runs `attend` forward and backward, to the gradients of query, keys and values."""
    query, keys, values = inputs
    leaves = [x.clone().requires_grad_() for x in (query, *keys, *values)]

    def call() -> tuple[Tensor, ...]:
        out = attend(leaves[0], leaves[1 : len(keys) + 1], leaves[len(keys) + 1 :])
        return torch.autograd.grad(out, leaves, query)  # any tensor of the output's shape

    return call


def backward(n: int, d: int, heads: int, *, seconds: float = 6.0) -> list[Row]:
    """Order 3 forward and backward, time and memory, against autograd through the materialised peer."""
    inputs, name = draw(3, n, d, heads), f"order 3 forward + backward, n = {n}, d = {d}, {heads} heads"
    functions = {OURS: gradients(sx.tensor_attention, inputs), MATERIALISED: gradients(materialised, inputs)}
    best = alternate(functions, seconds=seconds)
    return [Row(name, best[OURS], MATERIALISED, best[MATERIALISED], 0.5), *_memory(name, functions)]


def causal_backward(n: int, d: int, heads: int, *, seconds: float = 5.0) -> Row:
    """Order 3 forward and backward, with and without a causal mask."""
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
        *(short(*size, is_causal=is_causal) for size in SHORT for is_causal in (False, True)),
        *(short_backward(*size) for size in SHORT),
        *(row for d in (64, 128) for row in bfloat16(512, d)),
        *(causal(512, d) for d in (16, 64)),
        windowed(2048, 64, 4, (512, 32)),
        *backward(256, 64, 4),
        causal_backward(256, 64, 4),
        *memory(1024, 64),
        *forward(4, 128, 16),
        order_two(64, 16, 4),
        *(order_two(n, 64, heads) for n, heads in ((64, 4), (256, 1), (256, 4), (1024, 4))),
        *(order_two(n, 64, 4, is_causal=True) for n in (64, 1024)),
    ]
