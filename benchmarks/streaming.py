"""Attention to a stream: the time per decoded token after growing numbers of tokens, against exact decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.timing import alternate

D = 8
LENGTHS = (10**3, 10**4, 10**5, 10**6)


def _tokens(n: int, heads: tuple[int, ...] = ()) -> Tensor:
    """A query, two keys and two values of n tokens, with entries uniform in [-0.9, 0.9]."""
    return 0.9 * (2 * torch.rand(5, *heads, n, D, generator=torch.Generator().manual_seed(0)) - 1)


def _filled(n: int, heads: tuple[int, ...] = ()) -> sx.TensorAttentionState:
    state = sx.TensorAttentionState(3, D, D, bound=0.9, tolerance=1e-3, batch_shape=heads)
    for start in range(0, n, 10**5):
        _, k1, k2, v1, v2 = _tokens(min(n - start, 10**5), heads)
        state.append([k1, k2], [v1, v2])
    return state


def _decode(state: sx.TensorAttentionState, heads: tuple[int, ...] = ()) -> Callable[[], Tensor]:
    q, k1, k2, v1, v2 = _tokens(1, heads)

    def step() -> Tensor:
        state.append([k1, k2], [v1, v2])
        return state.attend(q)

    return step


@torch.no_grad()
def growth() -> Iterator[Row]:
    """The time to append and attend one token, after growing numbers of tokens."""
    states = {n: _filled(n) for n in LENGTHS}
    best = alternate({str(n): _decode(state) for n, state in states.items()}, seconds=4.0)
    least = min(best.values())
    for n, state in states.items():
        note = f"rank {state.plan.rank}, {state.nbytes >> 10} KiB, certified {state.certificate.total:.1e}"
        yield Row(f"decoded token after {n}", best[str(n)], "the least of these", least, 1.3, note=note)


@torch.no_grad()
def many_heads(n: int = 10**6, heads: int = 8) -> Row:
    """The time of a decoded token with several heads, including reading its certificate."""
    state = _filled(n, (heads,))
    step = _decode(state, (heads,))

    def certified() -> float:
        step()
        return state.certificate.total

    best = alternate({"state": certified}, seconds=4.0)["state"]
    name = f"decoded token after {n}, {heads} heads, with its certificate"
    return Row(name, best, "150 microseconds", 150e-6, 1.0, note=f"rank {state.plan.rank}")


@torch.no_grad()
def against_exact(n: int) -> Row:
    """Exact decoding stores all keys and values, and computes n^2 weights per token."""
    q, k1, k2, v1, v2 = _tokens(n)
    best = alternate(
        {"state": _decode(_filled(n)), "exact": lambda: sx.tensor_attention(q[-1:], [k1, k2], [v1, v2])}, seconds=2.0
    )
    return Row(f"decoded token after {n}", best["state"], "exact, with a cache", best["exact"])


def rows() -> list[Row]:
    return [*growth(), many_heads(), *(against_exact(n) for n in (256, 1024, 4096))]
