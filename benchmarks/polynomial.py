"""Near-linear attention of order 3: growth in n, exact attention and the roofline as peers, ranks and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.roofline import multiply_add_seconds, product_seconds
from benchmarks.timing import alternate, peak_bytes
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas
from separatrix.attention.near_linear.worst_case import paper_rank, worst_case_degree

MEMORY_LIMIT = 256 << 20


def uniform(n: int, d: int, order: int = 3) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    x = 2 * torch.rand(2 * order - 1, n, d, generator=torch.Generator().manual_seed(0)) - 1
    return x[0], list(x[1:order]), list(x[order:])


def _products(n: int, rank: int, d_v: int, order: int, dtype: torch.dtype) -> float:
    """The roofline: for each chunk, k - 1 matrix products for the states and one for the queries, on data in cache.

    The chunk length is the fastest one for the products, but never a power of two, which is bad for caches.
    """

    def seconds(size: int) -> float:
        state = product_seconds(rank, size, d_v + 1, dtype)
        query = product_seconds(d_v + 2, rank, size, dtype)
        return n / size * ((order - 1) * state + query)

    return min(seconds(size) for size in (2112, 8256))


def linear_growth(lengths: tuple[int, ...] = (10**4, 10**5, 10**6), d: int = 8) -> Iterator[Row]:
    """Order 3, entries uniform in [-1, 1], tolerance 1e-5: time per token, and the roofline of the longest sequence."""
    per_token: dict[int, float] = {}
    notes: dict[int, str] = {}
    roofline = math.inf
    for n in lengths:
        inputs = uniform(n, d)
        best, until = math.inf, perf_counter() + 6.0
        while (start := perf_counter()) < until:
            result = sx.certified_attention(*inputs, tolerance=1e-5)
            best = min(best, perf_counter() - start)
            assert result.plan.recipe is not None
            rank, dtype = result.plan.recipe.index_set.rank, result.plan.recipe.dtype
            if n == lengths[-1]:  # timed between the rounds, so that other load on the machine affects both alike
                roofline = min(roofline, _products(n, rank, d, 3, dtype))
        per_token[n] = best / n
        notes[n] = note = f"rank {rank}, {dtype}, certified {result.certificate.total:.1e}"
    least = min(per_token.values())
    for length, seconds in per_token.items():
        name = f"order 3, d = {d}, n = {length}: seconds a token"
        yield Row(name, seconds, "the least of these", least, 1.3, note=notes[length])
    yield Row(f"order 3, d = {d}, n = {n}", best, "its products alone", roofline, 3.0, note=note)
    # Two sums over keys for every monomial, of the values and of the weights, and one over monomials for each query.
    multiply_adds = multiply_add_seconds(n * rank * (3 * (d + 1)), dtype)
    yield Row(f"order 3, d = {d}, n = {n}", best, "its multiply-adds in registers", multiply_adds, 2.0, note=note)

    def forward() -> Tensor:
        return sx.tensor_attention(*inputs, tolerance=1e-5)

    held = peak_bytes(forward)
    limit = f"a limit of {MEMORY_LIMIT >> 20} MiB"
    yield Row(f"extra memory, order 3, n = {n}", held, limit, MEMORY_LIMIT, 1.0, "B")


def backward(n: int = 10**5, d: int = 8) -> Row:
    query, keys, values = uniform(n, d)
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]

    def forward() -> Tensor:
        return sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], tolerance=1e-5)

    out = forward()
    best = alternate(
        {"forward": forward, "backward": lambda: torch.autograd.grad(out, leaves, out, retain_graph=True)}, seconds=8.0
    )
    return Row(f"backward, order 3, d = {d}, n = {n}", best["backward"], "its forward", best["forward"], 4.0)


@torch.no_grad()
def against_exact(n: int = 2048, d: int = 8) -> Row:
    inputs = uniform(n, d)
    best = alternate({"polynomial": lambda: sx.tensor_attention(*inputs, tolerance=1e-5)}, seconds=2.0)
    exact = alternate({"exact": lambda: sx.tensor_attention(*inputs)}, seconds=0.0, rounds=2)
    return Row(f"order 3, d = {d}, n = {n}, 1e-5", best["polynomial"], "exact", exact["exact"], 1 / 300)


@torch.no_grad()
def crossover(d: int, tolerance: float = 1e-5) -> Row:
    """The length from which the polynomial method is faster, found by doubling and one bisection step."""

    def times(n: int) -> tuple[float, float]:
        inputs = uniform(n, d)
        best = alternate(
            {
                m: lambda m=m: sx.certified_attention(*inputs, tolerance=tolerance, method=m)
                for m in ("polynomial", "exact")
            },
            seconds=0.5,
        )
        return best["polynomial"], best["exact"]

    n = 32
    while n < 2048 and (pair := times(n))[0] > pair[1]:
        n *= 2
    fast, slow = times(n)
    planned = next(
        m
        for m in (2**p for p in range(4, 20))
        if sx.plan_attention(*uniform(m, d), tolerance=tolerance).method == "polynomial"
    )
    note = f"polynomial {fast * 1e3:.1f} ms, exact {slow * 1e3:.1f} ms there; `auto` changes at n = {planned}"
    return Row(f"crossover, order 3, d = {d}, 1e-5: n", n, "n", n, unit="", note=note)


def ranks() -> Iterator[Row]:
    """The rank for a worst-case error of 1e-3: the paper's count against total degree and against a shaped set."""
    for d in (8, 16, 32, 64):
        for R in (0.5, 1.0, 2.0):
            degree = worst_case_degree(R, 1e-3)
            assert degree is not None
            rank, paper = math.comb(d + degree, degree), paper_rank(d, degree, 3)
            shaped = {
                name: _shaped_rank([w * R / sum(weights) for w in weights], rank) for name, weights in _weights(d)
            }
            note = ", ".join(f"{name} amplitudes: {found}" for name, found in shaped.items())
            yield Row(
                f"rank, order 3, d = {d}, R = {R}, degree {degree}",
                rank,
                "the paper's count",
                paper,
                unit="",
                note=note,
            )


def _weights(d: int) -> tuple[tuple[str, list[float]], ...]:
    return ("even", [1.0] * d), ("halving", [2.0**-i for i in range(d)])


def _shaped_rank(b: list[float], most: int) -> str:
    """The smallest greedy set of size up to `most` whose omitted terms have a worst-case error of at most 1e-3."""
    left = math.exp(sum(b)) - 0.5e-3 * math.exp(-sum(b))
    total = 0.0
    for rank, alpha in enumerate(greedy_alphas(b, min(most, 20_000)).tolist(), start=1):
        total += math.prod(x**p / math.factorial(p) for x, p in zip(b, alpha, strict=True))
        if total >= left:
            return str(rank)
    return f"over {min(most, 20_000)}"


def rows() -> list[Row]:
    return [
        *linear_growth(),
        backward(),
        against_exact(),
        *(crossover(d) for d in (4, 8, 16)),
        *ranks(),
    ]
